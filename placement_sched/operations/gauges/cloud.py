"""The gauges of the whole cloud in ``/metrics``: hosts, and what is free and used of resources.

They are read when a scrape asks for them and those known are a minute old. Several workers share
them in a file beside their numbers, so that one of them reads for all.
"""

from collections.abc import Callable, Iterator

from oslo_log import log
from prometheus_client.core import GaugeMetricFamily

from placement_sched.errors import Error
from placement_sched.model.figures import CloudFigures
from placement_sched.operations.gauges.reading import ReadGauges, SharedFile

LOG = log.getLogger(__name__)

#: Reads the figures of the moment; raises :class:`Error` where it cannot.
ReadFigures = Callable[[], CloudFigures]

#: For so many seconds figures are not read again.
KEPT = 60

_PREFIX = "placement_sched"


class CloudGauges(ReadGauges):
    """The figures of the cloud as a collector of Prometheus; none until they could be read."""

    def __init__(self, read: ReadFigures, directory: str | None) -> None:
        """``directory`` is what workers share."""
        super().__init__(KEPT)
        self._read_figures = read
        self._file = SharedFile(directory, "cloud_figures.json")
        self._figures: CloudFigures | None = None

    def _read(self) -> float | None:
        """Take the figures from the file where that is young, else from the cloud."""
        age = self._file.age()
        if age is not None and age < KEPT:
            if (shared := self._file.read()) is None:
                return None
            self._figures = CloudFigures.from_json(shared)
            return age
        try:
            self._figures = self._read_figures().bounded()
        except Error as failure:
            LOG.warning("the figures of the cloud were not read: %s", failure.detail)
        else:
            self._file.write(self._figures.as_json())
        return 0

    def _shown(self) -> Iterator[GaugeMetricFamily]:
        figures = self._figures
        if figures is None:
            return
        hosts = GaugeMetricFamily(
            f"{_PREFIX}_hosts", "Compute services of hosts, by state.", labels=["state"]
        )
        for state, number in figures.hosts.items():
            hosts.add_metric([state], number)
        yield hosts
        for name, amounts in (("free", figures.free), ("used", figures.used)):
            gauge = GaugeMetricFamily(
                f"{_PREFIX}_resources_{name}",
                f"How much is {name} of a resource class in a zone, in the units of the class.",
                labels=["resource_class", "zone"],
            )
            for key, amount in sorted(amounts.items()):
                gauge.add_metric(key, amount)
            yield gauge
