"""A candidates query with its names resolved, split into slots that one provider each serves.

A group with a suffix is one slot; the group without is a slot for each of its resource classes,
since several providers of a tree may serve it together.
"""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property

from placement_sched.errors import UnknownNames
from placement_sched.model.candidates_query import CandidatesQuery, RequestGroup, TraitTerms


@dataclass(frozen=True, slots=True)
class Topology:
    """Whether the cloud has any child provider, and any sharing provider."""

    nested: bool
    sharing: bool

    @property
    def flat(self) -> bool:
        """Return whether every provider stands alone."""
        return not (self.nested or self.sharing)


@dataclass(frozen=True, slots=True)
class ResolvedNames:
    """Ids of every resource class, and of the traits and aggregates that a request names.

    An aggregate that does not exist has no id: it has no members.
    """

    classes: Mapping[str, int]
    traits: Mapping[str, int]
    aggregates: Mapping[str, int]
    topology: Topology

    def aggregate_ids(self, uuids: Iterable[str]) -> frozenset[int]:
        """Return the ids of those of these aggregates that exist."""
        known = self.aggregates
        return frozenset(known[uuid] for uuid in uuids if uuid in known)

    @property
    def class_names(self) -> dict[int, str]:
        """Return the name of every resource class by its id."""
        return {number: name for name, number in self.classes.items()}


def checked(query: CandidatesQuery, names: ResolvedNames) -> ResolvedNames:
    """Return the names; raise :class:`UnknownNames` for those of the query that are not there."""
    words = "Invalid resource class in resources parameter: No such resource class"
    classes = {name for group in query.groups for name, _ in group.resources}
    _check("resource class", words, classes, names.classes)
    _check("trait(s)", "No such trait(s):", traits_of(query), names.traits)
    return names


def traits_of(query: CandidatesQuery) -> frozenset[str]:
    """Return the names of all traits of a query."""
    return query.root.names.union(*(group.traits.names for group in query.groups))


def _check(kind: str, words: str, wanted: AbstractSet[str], known: Mapping[str, int]) -> None:
    if lacking := sorted(wanted - known.keys()):
        raise UnknownNames(f"{words} {', '.join(lacking)}.", kind=kind, names=lacking)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A part of a request that one provider serves; ``amounts``, if any, are by class id."""

    suffix: str
    amounts: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What must hold for a combination as a whole.

    ``trait_choices``: the providers of the slots without suffix must together have a trait of each
    set. ``subtrees``: of the providers of these slots, one must be above (or be) all others.
    ``one_of_a_tree``: at most one provider of each tree, as before microversion 1.29.
    """

    slots: tuple[Slot, ...]
    isolate: bool = False
    trait_choices: tuple[frozenset[int], ...] = ()
    subtrees: tuple[tuple[int, ...], ...] = ()
    one_of_a_tree: bool = False


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
