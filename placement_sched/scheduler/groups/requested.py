"""Groups that ports, accelerators and PCI devices ask for: ``requested_resources``."""

import re
from collections.abc import Iterable
from uuid import UUID

from placement_sched.errors import Invalid
from placement_sched.model.query import AggregateTerms
from placement_sched.model.requested_group import RequestedGroup
from placement_sched.scheduler.groups.gathering import Groups

_SUFFIX = re.compile("[a-zA-Z0-9_-]{1,64}")


def add_requested(groups: Groups, requested: Iterable[RequestedGroup]) -> None:
    """Add each group under the id of who asks for it.

    Raises :class:`Invalid` for one that asks for nothing, and where the id is none or taken.
    """
    for position, one in enumerate(requested):
        place = f"$.request_spec.requested_resources[{position}]"
        suffix = one.requester_id or ""
        _check(groups, one, place)
        group = groups[suffix]
        for name, amount in one.resources.items():
            group.ask(name, amount, f"{place}.resources.{name}")
        for name in sorted(one.required_traits):
            group.require(name, f"{place}.required_traits")
        for name in sorted(one.forbidden_traits):
            group.forbid(name, f"{place}.forbidden_traits")
        group.aggregates = aggregate_terms(one.aggregates, one.forbidden_aggregates)
        group.in_tree = one.in_tree and str(UUID(one.in_tree))


def _check(groups: Groups, one: RequestedGroup, place: str) -> None:
    suffix = one.requester_id or ""
    if not _SUFFIX.fullmatch(suffix):
        raise Invalid(
            f"a group is known by who asks for it: expected 1 to 64 letters, digits, _ and -, "
            f"got {one.requester_id!r} (at {place}.requester_id)"
        )
    if one.is_empty:
        raise Invalid(f"group {suffix!r} asks for nothing (at {place})")
    if suffix in groups:
        earlier = ", ".join(groups[suffix].askers)
        raise Invalid(
            f"there is a group {suffix!r} already, of {earlier} (at {place}.requester_id)"
        )


def aggregate_terms(member_of: Iterable[Iterable[str]], forbidden: Iterable[str]) -> AggregateTerms:
    """Return which aggregates are wanted: one of each of ``member_of``, none of ``forbidden``."""
    return AggregateTerms(
        tuple(frozenset(str(UUID(uuid)) for uuid in any_of) for any_of in member_of),
        frozenset(str(UUID(uuid)) for uuid in forbidden),
    )
