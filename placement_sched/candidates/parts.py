"""A request taken apart into slots, each with the condition on the provider that serves it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlalchemy import ColumnElement, literal

from placement_sched.candidates.combine import Slot
from placement_sched.candidates.constraints import (
    OWN_ROOT,
    PLAINLY,
    Condition,
    Manner,
    all_of,
    constraints_of,
)
from placement_sched.candidates.names import Names
from placement_sched.model.query import CandidatesQuery, RequestGroup, TraitTerms

_EACH = Manner(each=True)
#: The root of no tree.
_NOWHERE: ColumnElement[int | None] = literal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A slot of the request, and the group that only it has to serve."""

    slot: Slot
    group: RequestGroup
    names: Names

    @property
    def demand(self) -> RequestGroup:
        """Return what is asked, the same for parts that any provider serves alike."""
        return replace(self.group, suffix="_" if self.slot.suffix else "")

    def condition(self) -> Condition:
        """Return the condition on a provider of the tree itself."""
        return self._condition(OWN_ROOT)

    def condition_shared(self, anchor: ColumnElement[int | None]) -> Condition:
        """Return the condition on a provider that shares with the tree of this root."""
        return self._condition(anchor)

    def asked_of_member(self) -> Condition:
        """Return :meth:`condition` as it is asked of one provider after the other."""
        return self._condition(OWN_ROOT, _EACH)

    def asked_of_sharer(self) -> Condition:
        """Return :meth:`condition_shared` likewise, but for what it says of the tree's root."""
        return self._condition(_NOWHERE, _EACH)

    def _condition(
        self, home: ColumnElement[int | None] | None, manner: Manner = PLAINLY
    ) -> Condition:
        # A group with a suffix heeds only the aggregates of the provider itself.
        counted = None if self.slot.suffix else home
        return all_of(constraints_of(self.group, self.names, counted, manner))


def parts_of(query: CandidatesQuery, names: Names) -> tuple[Part, ...]:
    """Return the parts of a request in the order of its groups and classes."""
    return tuple(part for group in query.groups for part in _parts(group, names))


def serves_alone(group: RequestGroup) -> bool:
    """Return whether one provider serves all of a group."""
    return bool(group.suffix) or len(group.resources) <= 1


def _parts(group: RequestGroup, names: Names) -> Iterator[Part]:
    if serves_alone(group):
        yield _part(group, names)
        return
    # Each class may come from another provider; the traits required, from all of them together.
    traits = TraitTerms((), group.traits.forbidden)
    for amount in group.resources:
        yield _part(replace(group, resources=(amount,), traits=traits), names)


def _part(group: RequestGroup, names: Names) -> Part:
    amounts = tuple((names.classes[name], amount) for name, amount in group.resources)
    return Part(slot=Slot(suffix=group.suffix, amounts=amounts), group=group, names=names)
