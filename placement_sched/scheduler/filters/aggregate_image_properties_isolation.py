"""AggregateImagePropertiesIsolation: keep images out of aggregates that are for others."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from oslo_config import cfg

from placement_sched.scheduler.filters import (
    BaseHostFilter,
    HostState,
    Question,
    Refusal,
    Remedy,
    RequestSpec,
)
from placement_sched.scheduler.filters.changed_requests import without_properties
from placement_sched.scheduler.filters.utils import OncePerAggregates, aggregate_values
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

    def for_request(self, spec_obj: RequestSpec) -> Question | None:
        """Return what rejects for the first property, by name, that the aggregates do not have."""
        asked = self._asked(spec_obj)
        return OncePerAggregates(partial(_refusal, asked)).of if asked else None

    def changes(self, host_state: HostState, spec_obj: RequestSpec) -> Iterable[Remedy]:
        """Return the properties that would have to be others."""
        refused = list(_refused(self._asked(spec_obj), host_state))
        wanted = "; ".join(f"{key} {' or '.join(found)}" for key, _, found in refused)
        words = f"use an image with {wanted}"
        yield without_properties(spec_obj, [key for key, _, _ in refused], words)

    def _asked(self, spec_obj: RequestSpec) -> Sequence[tuple[str, str]]:
        """Return name and value, as a text, of the properties that are looked at, by name."""
        options = self.settings.filter_scheduler
        prefix = options.aggregate_image_properties_isolation_namespace or ""
        prefix += (options.aggregate_image_properties_isolation_separator or "") if prefix else ""
        named = sorted(spec_obj.image.properties.to_dict().items())
        # Metadata are texts, so that it is as texts that they are compared.
        return [(key, str(value)) for key, value in named if value and key.startswith(prefix)]


def _refusal(asked: Iterable[tuple[str, str]], host_state: HostState) -> Refusal | None:
    for key, value, found in _refused(asked, host_state):
        reason = f"{key}: the image has {value}, the aggregates {', '.join(found)}"
        return Refusal(reason, value, found)
    return None


def _refused(
    asked: Iterable[tuple[str, str]], host_state: HostState
) -> Iterator[tuple[str, str, list[str]]]:
    """Yield name and value of each property refused, and what the aggregates have."""
    for key, value in asked:
        allowed = aggregate_values(host_state, key)
        if allowed and value not in allowed:
            yield key, value, sorted(allowed)
