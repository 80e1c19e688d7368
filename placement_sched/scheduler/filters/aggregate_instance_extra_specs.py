# SPDX-License-Identifier: Apache-2.0
"""AggregateInstanceExtraSpecsFilter: filter by extra specs of the flavor."""

from collections.abc import Iterable, Iterator

from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.filters import (
    BaseHostFilter,
    HostCheck,
    HostState,
    Rejection,
    SuggestedChanges,
    extra_specs_ops,
    suggest_without_extra_specs,
)
from placement_sched.scheduler.filters.utils import OncePerAggregates, collect_aggregate_values


class AggregateInstanceExtraSpecsFilter(BaseHostFilter):
    """Filter for hosts whose aggregate metadata satisfy the extra specs.

    Extra specs with the scope ``aggregate_instance_extra_specs:`` and without a scope are compared,
    even if they are meant for another filter. A host is rejected if none of its aggregates has the
    key. Of several values, in several aggregates or separated by commas, at least 1 must match. The
    operators are the same as in ComputeCapabilitiesFilter.
    """

    run_filter_once_per_request = True

    def check(self, spec_obj: RequestSpec) -> None:
        for key, _, requirement in iterate_extra_specs(spec_obj):
            extra_specs_ops.check(key, requirement)

    def prepare(self, spec_obj: RequestSpec) -> HostCheck | None:
        specs = tuple(iterate_extra_specs(spec_obj))
        if not specs:
            return None

        def check_host(host_state: HostState) -> Rejection | None:
            for key, name, requirement in specs:
                values = sorted(collect_aggregate_values(host_state, name))
                if not has_match(values, requirement):
                    return Rejection(
                        kind="aggregate_extra_spec",
                        requested=requirement,
                        actual=values or None,
                        values={"key": key},
                    )
            return None

        return OncePerAggregates(check_host).get_value

    def suggested_changes(self, host_state: HostState, spec_obj: RequestSpec) -> SuggestedChanges:
        keys = [
            key
            for key, name, requirement in iterate_extra_specs(spec_obj)
            if not has_match(sorted(collect_aggregate_values(host_state, name)), requirement)
        ]
        yield suggest_without_extra_specs(spec_obj, keys, "aggregate_extra_spec")


def iterate_extra_specs(spec_obj: RequestSpec) -> Iterator[tuple[str, str, str]]:
    """Yield key, metadata key and requirement of each compared extra spec."""
    for key, requirement in spec_obj.flavor.extra_specs.items():
        name = key.removeprefix("aggregate_instance_extra_specs:")
        if ":" not in key or name != key:
            yield key, name, requirement


def has_match(values: Iterable[str], requirement: str) -> bool:
    """Return whether any value satisfies an extra spec's ``requirement``.

    Raises :class:`ValueError` if no value matches and a value cannot be compared.
    """
    errors = []
    for value in values:
        try:
            if extra_specs_ops.match(value, requirement):
                return True
        except ValueError as error:
            errors.append(error)
    if errors:
        raise errors[-1]
    return False
