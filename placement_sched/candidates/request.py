# SPDX-License-Identifier: Apache-2.0
"""Candidates query with resolved names, split into slots.

A slot is a part of the query for a single provider. Each request group with a suffix is a slot. The
group without a suffix is split into a slot for each of its resource classes, since several
providers of a tree can provide the classes together. A provider serves a slot if it meets all
requirements of the slot. A combination has a provider for each slot.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property

from placement_sched.errors import UnknownResourceClassOrTrait
from placement_sched.model.candidates_query import CandidatesQuery, RequestGroup, TraitTerms


@dataclass(frozen=True, slots=True)
class Topology:
    """Whether the cloud has child providers and sharing providers."""

    has_nested: bool
    has_sharing: bool

    @property
    def is_flat(self) -> bool:
        """Return whether no provider has a parent, and none shares."""
        return not (self.has_nested or self.has_sharing)


@dataclass(frozen=True, slots=True)
class ResolvedNames:
    """Ids of all resource classes, and of a query's traits and aggregates.

    An aggregate that does not exist has no id, and counts as empty.
    """

    classes: Mapping[str, int]
    traits: Mapping[str, int]
    aggregates: Mapping[str, int]
    topology: Topology

    def find_aggregate_ids(self, uuids: Iterable[str]) -> frozenset[int]:
        """Return the ids of the existing aggregates with these uuids."""
        ids = self.aggregates
        return frozenset(ids[uuid] for uuid in uuids if uuid in ids)

    @property
    def class_names(self) -> dict[int, str]:
        """Map the ids of all resource classes to their names."""
        return {number: name for name, number in self.classes.items()}


def check_names(query: CandidatesQuery, names: ResolvedNames) -> ResolvedNames:
    """Return ``names`` if they contain all names of a query.

    Raises :class:`UnknownResourceClassOrTrait` if a name is missing.
    """
    words = "Invalid resource class in resources parameter: No such resource class"
    classes = {name for group in query.groups for name, _ in group.resources}
    _check("resource class", words, classes, names.classes)
    _check("trait(s)", "No such trait(s):", list_traits(query), names.traits)
    return names


def list_traits(query: CandidatesQuery) -> frozenset[str]:
    """Return the names of all traits of a query."""
    return query.root.names.union(*(group.traits.names for group in query.groups))


def _check(kind: str, words: str, names: AbstractSet[str], ids: Mapping[str, int]) -> None:
    if missing := sorted(names - ids.keys()):
        raise UnknownResourceClassOrTrait(
            f"{words} {', '.join(missing)}.", kind=kind, names=missing
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A group for a single provider, with pairs of class id and amount."""

    group: RequestGroup
    amounts: tuple[tuple[int, int], ...]

    @property
    def suffix(self) -> str:
        """Return the suffix of the group that the slot is a part of."""
        return self.group.suffix

    @property
    def requirements(self) -> RequestGroup:
        """Return a key that is equal for slots with equal requirements."""
        return replace(self.group, suffix="_" if self.suffix else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules for a combination of providers.

    * ``isolate``: slots with a suffix need different providers (``group_policy=isolate``).
    * ``trait_choices``: sets of trait ids. The providers of the slots without suffix must together
      have a trait of each set.
    * ``subtrees``: sets of slot positions. In each set, the provider of a slot must be an ancestor
      of all other providers of the set's slots (``same_subtree``).
    * ``single_per_tree``: at most 1 provider of each tree, as before microversion 1.29.
    """

    slots: tuple[Slot, ...]
    isolate: bool = False
    trait_choices: tuple[frozenset[int], ...] = ()
    subtrees: tuple[tuple[int, ...], ...] = ()
    single_per_tree: bool = False


@dataclass(frozen=True)
class Search:
    """A candidates query with resolved names, and its slots and rules.

    ``single_per_tree`` excludes combinations with several providers of a tree.
    """

    query: CandidatesQuery
    names: ResolvedNames
    single_per_tree: bool = False

    @property
    def is_single_provider(self) -> bool:
        """Return whether each candidate is a single provider of a flat cloud."""
        return self.query.is_plain and self.names.topology.is_flat

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """Split the query into slots, in the order of its groups and classes."""
        classes, parts = self.names.classes, []
        for group in self.query.groups:
            if needs_single_provider(group):
                parts.append(group)
                continue
            # Several providers may serve the classes. Together they must have the required traits.
            traits = TraitTerms((), group.traits.forbidden)
            parts += [
                replace(group, resources=(amount,), traits=traits) for amount in group.resources
            ]
        return tuple(
            Slot(
                group=part,
                amounts=tuple((classes[name], number) for name, number in part.resources),
            )
            for part in parts
        )

    @cached_property
    def rules(self) -> Rules:
        """Return the rules for combinations of providers in a tree."""
        query, traits = self.query, self.names.traits
        positions = {slot.suffix: position for position, slot in enumerate(self.slots)}
        group = query.group
        required = group.traits.required if group and not needs_single_provider(group) else ()
        return Rules(
            slots=self.slots,
            isolate=query.isolates,
            trait_choices=select_minimal_sets(
                frozenset(traits[name] for name in any_of) for any_of in required
            ),
            subtrees=drop_duplicate_subtrees(
                tuple(positions[suffix] for suffix in suffixes) for suffixes in query.same_subtrees
            ),
            single_per_tree=self.single_per_tree,
        )

    @cached_property
    def equal_slots(self) -> list[list[int]]:
        """Group the positions of slots by equal requirements."""
        equal: dict[object, list[int]] = {}
        for position, slot in enumerate(self.slots):
            equal.setdefault(slot.requirements, []).append(position)
        return list(equal.values())

    @cached_property
    def distinct_slots(self) -> list[Slot]:
        """Return the first slot of each group of :attr:`equal_slots`."""
        return [self.slots[positions[0]] for positions in self.equal_slots]

    @property
    def conditions(self) -> int:
        """Return the approximate number of conditions evaluated for each provider."""
        return sum(
            len(group.resources)
            + len(group.traits.required)
            + len(group.traits.forbidden)
            + len(group.aggregates.member_of)
            for group in (slot.group for slot in self.distinct_slots)
        )


def needs_single_provider(group: RequestGroup) -> bool:
    """Return whether a single provider must serve the whole group."""
    return bool(group.suffix) or len(group.resources) <= 1


def drop_duplicate_subtrees(subtrees: Iterable[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    """Drop duplicate subtree rules, and rules with a single slot.

    Rules that differ in the order of slots are duplicates. A rule is kept even if a larger rule
    has all its slots: the topmost provider of the larger rule may serve a slot of that rule only.
    """
    distinct: dict[frozenset[int], tuple[int, ...]] = {}
    for slots in subtrees:
        distinct.setdefault(frozenset(slots), slots)
    return tuple(slots for key, slots in distinct.items() if len(key) > 1)


def select_minimal_sets(sets: Iterable[frozenset[int]]) -> tuple[frozenset[int], ...]:
    """Return the sets, smallest first, without sets that contain another set.

    A provider with an item of each returned set has an item of every set.
    """
    minimal: list[frozenset[int]] = []
    for items in sorted(set(sets), key=lambda items: (len(items), sorted(items))):
        if not any(subset <= items for subset in minimal):
            minimal.append(items)
    return tuple(minimal)
