"""AggregateInstanceExtraSpecsFilter: only hosts whose aggregates say what the flavor asks for."""

from collections.abc import Iterable, Iterator
from functools import partial

from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.filters import (
    BaseHostFilter,
    HostState,
    Question,
    Refusal,
    Remedy,
    extra_specs_ops,
)
from placement_sched.scheduler.filters.changed_requests import without_extra_specs
from placement_sched.scheduler.filters.utils import OncePerAggregates, aggregate_values

#: An extra spec, the metadata key that it is about, and the value wanted there.
_Asked = tuple[str, str, str]


class AggregateInstanceExtraSpecsFilter(BaseHostFilter):
    """Lets hosts pass whose aggregates' metadata satisfy the flavor's extra specs.

    Read are keys of the scope ``aggregate_instance_extra_specs:`` and keys without a scope. A host
    none of whose aggregates has the key is refused; of several values, in several aggregates or
    separated by commas, one must match. The same operators work as in ComputeCapabilitiesFilter.
    Mind that a key without a scope, though meant for another filter, is asked of aggregates, too.
    """

    run_filter_once_per_request = True

    def check(self, spec_obj: RequestSpec) -> None:
        """Raise :class:`Invalid` for a comparison that makes no sense with any value."""
        for key, _, wanted in asked_of_aggregates(spec_obj):
            extra_specs_ops.check(key, wanted)

    def for_request(self, spec_obj: RequestSpec) -> Question | None:
        """Return what rejects for the first extra spec that the aggregates do not satisfy."""
        asked = tuple(asked_of_aggregates(spec_obj))
        return OncePerAggregates(partial(_refusal, asked)).of if asked else None

    def changes(self, host_state: HostState, spec_obj: RequestSpec) -> Iterable[Remedy]:
        """Return the extra specs that the aggregates do not satisfy."""
        keys = [
            key
            for key, name, wanted in asked_of_aggregates(spec_obj)
            if not any_matches(sorted(aggregate_values(host_state, name)), wanted)
        ]
        yield without_extra_specs(spec_obj, keys, "put them into the metadata of its aggregates")


def _refusal(asked: Iterable[_Asked], host_state: HostState) -> Refusal | None:
    for key, name, wanted in asked:
        values = sorted(aggregate_values(host_state, name))
        if not values:
            return Refusal(f"{key}: {wanted!r} requested, no aggregate of the host has it", wanted)
        if not any_matches(values, wanted):
            found = ", ".join(values)
            return Refusal(f"{key}: {wanted!r} requested, {found} found", wanted, values)
    return None


def asked_of_aggregates(spec_obj: RequestSpec) -> Iterator[_Asked]:
    """Yield extra spec, metadata key and wanted value of what the flavor asks of aggregates."""
    for key, wanted in spec_obj.flavor.extra_specs.items():
        name = key.removeprefix("aggregate_instance_extra_specs:")
        if ":" not in key or name != key:
            yield key, name, wanted


def any_matches(values: Iterable[str], wanted: str) -> bool:
    """Return whether one value matches, whatever stands beside it.

    Raises :class:`ValueError` where none does and one is not comparable.
    """
    incomparable = []
    for value in values:
        try:
            if extra_specs_ops.match(value, wanted):
                return True
        except ValueError as wrong:
            incomparable.append(wrong)
    if incomparable:
        raise incomparable[-1]
    return False
