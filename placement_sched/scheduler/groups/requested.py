"""Groups that ports, accelerators and PCI devices ask for: ``requested_resources``."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
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
        place = _Place(one.source, f"$.request_spec.requested_resources[{position}]")
        suffix = one.requester_id or ""
        _check(groups, one, place)
        group = groups[suffix]
        for name, amount in one.resources.items():
            group.ask(name, amount, place.of(f"resources.{name}"))
        for name in sorted(one.required_traits):
            group.require(name, place.of("required_traits"))
        for name in sorted(one.forbidden_traits):
            group.forbid(name, place.of("forbidden_traits"))
        group.aggregates = aggregate_terms(one.aggregates, one.forbidden_aggregates)
        group.in_tree = one.in_tree and str(UUID(one.in_tree))


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a group came from: its own source, which has no parts, or its JSON path."""

    source: str | None
    path: str

    def of(self, part: str) -> str:
        """Return where a part of the group came from."""
        return self.source or f"{self.path}.{part}"


def _check(groups: Groups, one: RequestedGroup, place: _Place) -> None:
    suffix = one.requester_id or ""
    where = f"(at {place.of('requester_id')})"
    if not _SUFFIX.fullmatch(suffix):
        raise Invalid(
            f"a group is known by who asks for it: expected 1 to 64 letters, digits, _ and -, "
            f"got {one.requester_id!r} {where}"
        )
    if one.is_empty:
        raise Invalid(f"group {suffix!r} asks for nothing (at {place.source or place.path})")
    if suffix in groups:
        earlier = ", ".join(groups[suffix].askers) or "the flavor"
        raise Invalid(f"there is a group {suffix!r} already, of {earlier} {where}")


def aggregate_terms(member_of: Iterable[Iterable[str]], forbidden: Iterable[str]) -> AggregateTerms:
    """Return which aggregates are wanted: one of each of ``member_of``, none of ``forbidden``."""
    return AggregateTerms(
        tuple(frozenset(str(UUID(uuid)) for uuid in any_of) for any_of in member_of),
        frozenset(str(UUID(uuid)) for uuid in forbidden),
    )
