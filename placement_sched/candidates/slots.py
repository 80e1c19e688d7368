"""A request split into slots, each of which one provider serves.

A group with a suffix is one slot; the group without is a slot for each of its resource classes,
since several providers of a tree may serve it together.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from placement_sched.candidates.combine import Rules, Slot
from placement_sched.candidates.resolve import ResolvedNames
from placement_sched.model.placement.query import CandidatesQuery, RequestGroup, TraitTerms


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotGroup:
    """A slot, and the request group that its provider alone has to serve."""

    slot: Slot
    group: RequestGroup
    names: ResolvedNames

    @property
    def demand(self) -> RequestGroup:
        """Return what is requested, equal for slots that the same providers can serve."""
        return replace(self.group, suffix="_" if self.slot.suffix else "")


@dataclass(frozen=True, kw_only=True)
class TreeSearch:
    """A request as it is searched for in provider trees: its slots, rules and root traits."""

    slots: tuple[SlotGroup, ...]
    rules: Rules
    root: TraitTerms
    names: ResolvedNames

    @cached_property
    def equal_slots(self) -> list[list[int]]:
        """The positions of slots that the same providers can serve, together."""
        equal: dict[object, list[int]] = {}
        for position, slot in enumerate(self.slots):
            equal.setdefault(slot.demand, []).append(position)
        return list(equal.values())

    @cached_property
    def distinct_slots(self) -> list[SlotGroup]:
        """One slot of each of :attr:`equal_slots`."""
        return [self.slots[positions[0]] for positions in self.equal_slots]


def tree_search(
    query: CandidatesQuery, names: ResolvedNames, *, one_of_a_tree: bool = False
) -> TreeSearch:
    """Return a request as it is searched for in trees."""
    slots = slots_of(query, names)
    positions = {one.slot.suffix: position for position, one in enumerate(slots)}
    group = query.group
    required = group.traits.required if group and not serves_alone(group) else ()
    rules = Rules(
        slots=tuple(one.slot for one in slots),
        isolate=query.isolates,
        trait_choices=least_sets(
            frozenset(names.traits[name] for name in any_of) for any_of in required
        ),
        subtrees=distinct_subtrees(
            tuple(positions[suffix] for suffix in suffixes) for suffixes in query.same_subtrees
        ),
        one_of_a_tree=one_of_a_tree,
    )
    return TreeSearch(slots=slots, rules=rules, root=query.root, names=names)


def conditions_of(search: TreeSearch) -> int:
    """Return about how many conditions are evaluated for each provider."""
    groups = [slot.group for slot in search.distinct_slots]
    return sum(
        len(group.resources)
        + len(group.traits.required)
        + len(group.traits.forbidden)
        + len(group.aggregates.member_of)
        for group in groups
    )


def slots_of(query: CandidatesQuery, names: ResolvedNames) -> tuple[SlotGroup, ...]:
    """Return the slots of a request in the order of its groups and classes."""
    found = []
    for group in (part for whole in query.groups for part in _split(whole)):
        amounts = tuple((names.classes[name], amount) for name, amount in group.resources)
        slot = Slot(suffix=group.suffix, amounts=amounts)
        found.append(SlotGroup(slot=slot, group=group, names=names))
    return tuple(found)


def serves_alone(group: RequestGroup) -> bool:
    """Return whether one provider serves all of a group."""
    return bool(group.suffix) or len(group.resources) <= 1


def _split(group: RequestGroup) -> Iterator[RequestGroup]:
    if serves_alone(group):
        yield group
        return
    # Each class may come from another provider; the traits required, from all of them together.
    traits = TraitTerms((), group.traits.forbidden)
    for amount in group.resources:
        yield replace(group, resources=(amount,), traits=traits)


def distinct_subtrees(subtrees: Iterable[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    """Return the rules of subtrees, each once however its slots are ordered or repeated.

    One does not follow from a larger one: the slot above all others may be in the larger only.
    """
    distinct: dict[frozenset[int], tuple[int, ...]] = {}
    for slots in subtrees:
        distinct.setdefault(frozenset(slots), slots)
    return tuple(slots for key, slots in distinct.items() if len(key) > 1)


def least_sets(sets: Iterable[frozenset[int]]) -> tuple[frozenset[int], ...]:
    """Return the sets, smallest first, without those that contain another one.

    A provider that has (or is in) one of each of these has one of each of all.
    """
    least: list[frozenset[int]] = []
    for one in sorted(set(sets), key=lambda one: (len(one), sorted(one))):
        if not any(fewer <= one for fewer in least):
            least.append(one)
    return tuple(least)
