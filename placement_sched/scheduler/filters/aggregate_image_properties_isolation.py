# SPDX-License-Identifier: Apache-2.0
"""AggregateImagePropertiesIsolation: filter by properties of the image."""

from collections.abc import Iterable, Iterator, Sequence

from oslo_config import cfg

from placement_sched.scheduler.filters import (
    BaseHostFilter,
    HostCheck,
    HostState,
    Rejection,
    RequestSpec,
    SuggestedChanges,
    drop_properties,
)
from placement_sched.scheduler.filters.utils import OncePerAggregates, collect_aggregate_values
from placement_sched.scheduler.plugin import build_group_options


class AggregateImagePropertiesIsolation(BaseHostFilter):
    """Filter for hosts whose aggregate metadata match the image properties.

    If a metadata key of an aggregate is the name of an image property, such as ``os_distro``, its
    value lists the values that the image may have, separated by commas. The lists of several
    aggregates of a host are joined. An image without the property, or with ``False`` or 0, passes.
    To reject such images too, reserve the aggregate by a required trait (:doc:`aggregates`).

    If ``[filter_scheduler] aggregate_image_properties_isolation_namespace`` is set, only keys count
    that begin with it and ``aggregate_image_properties_isolation_separator``. As in nova since
    Liberty, only properties of nova's ImageMetaProps count, under their present names.
    """

    run_filter_once_per_request = True
    RUN_ON_REBUILD = True

    options = build_group_options(
        "filter_scheduler",
        cfg.StrOpt("aggregate_image_properties_isolation_namespace", deprecated_group="DEFAULT"),
        "Prefix, before the separator, of the aggregate metadata keys that "
        "AggregateImagePropertiesIsolation compares. Unset: it compares all keys.",
        cfg.StrOpt(
            "aggregate_image_properties_isolation_separator",
            default=".",
            deprecated_group="DEFAULT",
        ),
        "Separator between aggregate_image_properties_isolation_namespace and the rest of the key.",
    )

    def prepare(self, spec_obj: RequestSpec) -> HostCheck | None:
        properties = self._select_compared_properties(spec_obj)
        if not properties:
            return None

        def check_host(host_state: HostState) -> Rejection | None:
            for key, value, allowed in _iterate_rejected(properties, host_state):
                return Rejection(
                    kind="aggregate_image_property",
                    requested=value,
                    actual=allowed,
                    values={"key": key},
                )
            return None

        return OncePerAggregates(check_host).get_value

    def suggested_changes(self, host_state: HostState, spec_obj: RequestSpec) -> SuggestedChanges:
        rejected = list(_iterate_rejected(self._select_compared_properties(spec_obj), host_state))
        allowed = {key: values for key, _, values in rejected}
        yield drop_properties(spec_obj, list(allowed), "aggregate_image_property", allowed=allowed)

    def _select_compared_properties(self, spec_obj: RequestSpec) -> Sequence[tuple[str, str]]:
        options = self.settings.filter_scheduler
        prefix = options.aggregate_image_properties_isolation_namespace or ""
        prefix += (options.aggregate_image_properties_isolation_separator or "") if prefix else ""
        properties = sorted(spec_obj.image.properties.to_dict().items())
        # Metadata are texts: compare texts.
        return [(key, str(value)) for key, value in properties if value and key.startswith(prefix)]


def _iterate_rejected(
    properties: Iterable[tuple[str, str]], host_state: HostState
) -> Iterator[tuple[str, str, list[str]]]:
    for key, value in properties:
        allowed = collect_aggregate_values(host_state, key)
        if allowed and value not in allowed:
            yield key, value, sorted(allowed)
