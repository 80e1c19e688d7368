"""The gauges of how many more instances of chosen flavors fit, in ``/metrics``.

They are counted beside the scrapes, by a thread that a scrape starts where what is known is a
minute old: no scrape waits for them, and each shows how old they are. Several workers share them in
a file beside their numbers.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from threading import Lock, Thread

from oslo_log import log
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from placement_sched.errors import Error
from placement_sched.model.figures import CapacityFigures, Counted
from placement_sched.operations.gauges.reading import SharedFile

LOG = log.getLogger(__name__)

#: Counts the capacity for flavors of these names.
CountFlavors = Callable[[Sequence[str]], CapacityFigures]

#: For so many seconds capacity is not counted again.
KEPT = 60
#: So many flavors are shown: the first that the option names.
MOST = 50
#: The name of the thread that counts.
THREAD = "capacity of flavors"

_PREFIX = "placement_sched_scheduler_capacity"


class CapacityGauges(Collector):
    """The capacity for chosen flavors as a collector of Prometheus.

    ``flavors`` returns their names; ``directory`` is what workers share. One thread at a time
    counts.
    """

    def __init__(
        self, flavors: Callable[[], Sequence[str]], count: CountFlavors, directory: str | None
    ) -> None:
        self._flavors, self._count = flavors, count
        self._file = SharedFile(directory, "capacity_figures.json")
        self._turn = Lock()
        self._figures: CapacityFigures | None = None
        self._asked: tuple[str, ...] = ()
        self._tried_at = 0.0
        self._logged: set[str] = set()

    def describe(self) -> list[GaugeMetricFamily]:
        """Return nothing: what there is to collect is not asked for when this is registered."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges of what was counted last; none where there is nothing yet."""
        names = tuple(dict.fromkeys(self._flavors()))[:MOST]
        if not names:
            return
        self._read_file()
        figures = self._figures
        self._refresh(names)
        if figures is not None:
            yield from _gauges(figures, names)

    def _refresh(self, names: tuple[str, ...]) -> None:
        """Let a thread count where what is known is too old, or of other flavors."""
        now, known = time.time(), self._figures
        young = known is not None and _is_young(known.counted_at, now)
        if young and known is not None and known.flavors.keys() >= {*names}:
            return
        if self._asked == names and _is_young(self._tried_at, now):  # it failed a moment ago
            return
        if self._turn.acquire(blocking=False):
            self._asked, self._tried_at = names, now
            Thread(target=self._count_beside, args=(names,), name=THREAD, daemon=True).start()

    def _count_beside(self, names: tuple[str, ...]) -> None:
        try:
            figures = self._figures = self._count(names)
            self._log_unknown(figures)
            self._file.write(figures.as_json())
        except Error as failure:
            LOG.warning("the capacity for flavors was not counted: %s", failure.detail)
        except Exception:
            LOG.exception("the capacity for flavors was not counted")
        finally:
            self._turn.release()

    def _log_unknown(self, figures: CapacityFigures) -> None:
        for name, one in figures.flavors.items():
            if one.state is Counted.UNKNOWN and name not in self._logged:
                self._logged.add(name)
                LOG.warning(
                    "[scheduler] capacity_flavors names %r, of which there is no stored flavor",
                    name,
                )

    def _read_file(self) -> None:
        """Take over what another worker has counted, where that is younger."""
        if (shared := self._file.read()) is None:
            return
        found = CapacityFigures.from_json(shared)
        known = self._figures
        if known is None or found.counted_at > known.counted_at or known.counted_at > time.time():
            self._figures = found


def _is_young(since: float, now: float) -> bool:
    """Return whether it is so little ago; the future is from before the clock went back."""
    return 0 <= now - since < KEPT


def _gauges(figures: CapacityFigures, names: Sequence[str]) -> Iterator[GaugeMetricFamily]:
    shown = {name: figures.flavors[name] for name in names if name in figures.flavors}
    counted = {
        name: one for name, one in shown.items() if one.state in {Counted.EXACT, Counted.INEXACT}
    }
    whole = GaugeMetricFamily(
        _PREFIX, "How many more instances of a flavor fit.", labels=["flavor"]
    )
    by_zone = GaugeMetricFamily(
        f"{_PREFIX}_by_zone",
        "How many more instances of a flavor fit in a zone.",
        labels=["flavor", "zone"],
    )
    for name, one in counted.items():
        whole.add_metric([name], one.instances)
        for zone, instances in sorted(one.zones.items()):
            by_zone.add_metric([name, zone], instances)
    states = GaugeMetricFamily(
        f"{_PREFIX}_state",
        "1 for the state of a flavor's capacity: exact, inexact (at least so many), refused (no "
        "request can have it) or unknown (there is no such flavor).",
        labels=["flavor", "state"],
    )
    for name, one in shown.items():
        states.add_metric([name, one.state], 1)
    age = GaugeMetricFamily(
        f"{_PREFIX}_age_seconds",
        "How long ago the capacity for flavors was counted.",
        value=max(time.time() - figures.counted_at, 0),
    )
    yield from (whole, by_zone, states, age)
