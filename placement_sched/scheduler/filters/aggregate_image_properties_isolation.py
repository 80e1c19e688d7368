"""AggregateImagePropertiesIsolation: keep images out of aggregates that are for others."""

from collections.abc import Iterable, Iterator

from oslo_config import cfg

from placement_sched.scheduler.filters import (
    BaseHostFilter,
    HostState,
    Refusal,
    Remedy,
    RequestSpec,
)
from placement_sched.scheduler.filters.changed_requests import without_properties
from placement_sched.scheduler.filters.utils import aggregate_metadata_get_by_host
from placement_sched.scheduler.plugin import in_group


class AggregateImagePropertiesIsolation(BaseHostFilter):
    """Lets a host pass unless its aggregates say otherwise of a property that the image has.

    A key of the aggregates' metadata that is the name of an image property, like ``os_distro``,
    says which values may be there: of several, separated by commas or in several aggregates, one
    must be the image's. An image without the property, or with ``False`` or 0, passes; to keep
    such images out as well, tag the aggregate with a required trait (:doc:`reserve_hosts`).

    With ``[filter_scheduler] aggregate_image_properties_isolation_namespace`` only keys count that
    begin with it and ``aggregate_image_properties_isolation_separator``. As in nova since Liberty,
    only properties that nova knows are looked at, under the names of today.
    """

    run_filter_once_per_request = True
    RUN_ON_REBUILD = True

    options = in_group(
        "filter_scheduler",
        cfg.StrOpt("aggregate_image_properties_isolation_namespace", deprecated_group="DEFAULT"),
        "What keys of aggregate metadata begin with, before the separator, that "
        "AggregateImagePropertiesIsolation compares. Unset: it compares all.",
        cfg.StrOpt(
            "aggregate_image_properties_isolation_separator",
            default=".",
            deprecated_group="DEFAULT",
        ),
        "What separates aggregate_image_properties_isolation_namespace from the rest of the key.",
    )

    def refusal(self, host_state: HostState, spec_obj: RequestSpec) -> Refusal | None:
        """Return the first property, by name, whose value the aggregates do not have."""
        for key, value, found in self._refused(host_state, spec_obj):
            reason = f"{key}: the image has {value}, the aggregates {', '.join(found)}"
            return Refusal(reason, value, found)
        return None

    def changes(self, host_state: HostState, spec_obj: RequestSpec) -> Iterable[Remedy]:
        """Return the properties that would have to be others."""
        refused = list(self._refused(host_state, spec_obj))
        wanted = "; ".join(f"{key} {' or '.join(found)}" for key, _, found in refused)
        words = f"use an image with {wanted}"
        yield without_properties(spec_obj, [key for key, _, _ in refused], words)

    def _refused(
        self, host_state: HostState, spec_obj: RequestSpec
    ) -> Iterator[tuple[str, str, list[str]]]:
        """Yield name and value of each property refused, and what the aggregates have."""
        options = self.settings.filter_scheduler
        prefix = options.aggregate_image_properties_isolation_namespace or ""
        prefix += (options.aggregate_image_properties_isolation_separator or "") if prefix else ""
        properties = spec_obj.image.properties
        for key, allowed in sorted(aggregate_metadata_get_by_host(host_state).items()):
            value = properties.get(key) if key.startswith(prefix) else None
            # Metadata are texts, so that it is as texts that they are compared.
            if value and str(value) not in allowed:
                yield key, str(value), sorted(allowed)
