"""The constraints of a request, and which providers meet them: the only evaluator.

It works on provider columns, cached or loaded. A search needs the providers that meet all
constraints of a group, an explanation each constraint alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np

from placement_sched.candidates.columns import Mask, RowNumbers, SomeRows, number_of
from placement_sched.candidates.request import ResolvedNames, SlotGroup, TreeSearch
from placement_sched.candidates.tree_index import TreeIndex
from placement_sched.model.candidates_query import RequestGroup, TraitTerms

#: The kind of the constraints on the root of a tree.
ROOT_REQUIRED = "root_required"
#: Maximum number of sets of traits that are checked for each tree before its slots.
_MAX_TRAIT_SETS = 16
#: If only one tree in this many is left, no others are checked for the rest of the request.
_SPARSE = 16


class CountedRoot(Enum):
    """Whose aggregates count besides a provider's own: its root's, or no others.

    ``OTHER``: the provider shares with another tree. Its own root's aggregates do not make it a
    member, but it must not be in a forbidden aggregate by its own root either.
    """

    OWN = 1
    NONE = 2
    OTHER = 3


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint: its kind and detail as an explanation names them.

    ``resource_class`` and ``amount`` are those of a constraint on resources; any other has the
    ``reason`` why a provider that does not meet it is rejected.
    """

    kind: str
    detail: str
    reason: str = ""
    resource_class: str = ""
    amount: int = 0


def constraints_of(group: RequestGroup) -> Iterator[Constraint]:
    """Yield the constraints of a group, in the order of explanations."""
    for name, amount in group.resources:
        yield Constraint("resources", f"{name}:{amount}", resource_class=name, amount=amount)
    yield from _trait_constraints(group.traits)
    for uuids in group.aggregates.member_of:
        named = sorted(uuids)
        reason = f"not in aggregate {' or '.join(named)}"
        yield Constraint("member_of", f"in:{','.join(named)}", reason)
    if group.aggregates.forbidden:
        detail = f"!in:{','.join(sorted(group.aggregates.forbidden))}"
        yield Constraint("member_of", detail, "in a forbidden aggregate")
    if group.in_tree is not None:
        yield Constraint("in_tree", group.in_tree)


def root_constraints_of(terms: TraitTerms) -> Iterator[Constraint]:
    """Yield the constraints on the root of a tree."""
    for one in _trait_constraints(terms):
        yield replace(one, kind=ROOT_REQUIRED, reason=f"the root {one.reason}")


def _trait_constraints(terms: TraitTerms) -> Iterator[Constraint]:
    for any_of in terms.required:
        names = sorted(any_of)
        detail = names[0] if len(names) == 1 else f"in:{','.join(names)}"
        yield Constraint("required", detail, f"lacks trait {' or '.join(names)}")
    for name in sorted(terms.forbidden):
        yield Constraint("required", f"!{name}", f"has forbidden trait {name}")


@dataclass(frozen=True, slots=True)
class ConstraintEvaluator:
    """Evaluates the request groups of a query on provider columns."""

    shape: TreeIndex
    names: ResolvedNames
    _trees: dict[str, RowNumbers] = field(default_factory=dict)

    def serving(self, group: RequestGroup, counted: CountedRoot, rows: SomeRows) -> Mask:
        """Return for each of the rows whether the provider could serve the group alone."""
        if group.in_tree is not None:
            return self._serving_in_tree(group.in_tree, replace(group, in_tree=None), counted, rows)
        found = np.ones(number_of(rows), np.bool_)
        for met in self.each(group, counted, rows):
            found &= met
            if not found.any():
                break
        return found

    def number_with_room(self, group: RequestGroup) -> int:
        """Return an upper bound of the providers that fit a group, 0 if the group names a tree."""
        if group.in_tree is not None:
            return 0
        columns, ids = self.shape.cloud.classes, self.names.classes
        return min(
            (
                columns[ids[name]].number_with_room(amount) if ids[name] in columns else 0
                for name, amount in group.resources
            ),
            default=len(self.shape.cloud),
        )

    def _serving_in_tree(
        self, uuid: str, group: RequestGroup, counted: CountedRoot, rows: SomeRows
    ) -> Mask:
        """Look at the few rows of the tree alone, however many ``rows`` are."""
        found = np.zeros(number_of(rows), np.bool_)
        few = self.rows_in_tree(uuid)
        if not len(few):
            return found
        if isinstance(rows, slice):
            few = few[(few >= rows.start) & (few < rows.stop)]
            places = few - rows.start
        else:
            roots = self.shape.cloud.providers.roots
            places = np.flatnonzero(roots[rows] == roots[few[0]])
            few = rows[places]
        found[places] = self.serving(group, counted, few)
        return found

    def rows_in_tree(self, uuid: str) -> RowNumbers:
        """Return the rows of all providers of the tree that a provider is in, if there is one."""
        found = self._trees.get(uuid)
        if found is None:
            cloud = self.shape.cloud
            roots = cloud.providers.roots[cloud.rows_of(cloud.ids_of([uuid]).values())]
            found = self._trees[uuid] = self.shape.rows_of_trees(roots[roots != 0])
        return found

    def each(self, group: RequestGroup, counted: CountedRoot, rows: SomeRows) -> Iterator[Mask]:
        """Yield which of the rows meet each constraint, in the order of :func:`constraints_of`."""
        if not self.names.topology.nested and counted is CountedRoot.OWN:
            counted = CountedRoot.NONE  # every provider is its own root
        for resource in group.resources:
            yield self._has_room(*resource, rows)
        yield from self.each_trait(group.traits, rows)
        if counted is CountedRoot.OWN:
            yield from self._memberships(group.aggregates.member_of, rows)
        else:
            for uuids in group.aggregates.member_of:
                yield self.members_of(uuids)[rows]
        if group.aggregates.forbidden:
            yield ~self._is_inside(group.aggregates.forbidden, counted, rows)
        if group.in_tree is not None:
            every = np.zeros(len(self.shape.cloud), np.bool_)
            every[self.rows_in_tree(group.in_tree)] = True
            yield every[rows]

    def _memberships(self, member_of: Sequence[frozenset[str]], rows: SomeRows) -> Iterator[Mask]:
        """Yield which of the rows are in one of each set of aggregates, and of all sets before it.

        In all by itself, or in all by the root: not in some by itself and in others by the root.
        """
        members = np.ones(len(self.shape.cloud), np.bool_)
        for uuids in member_of:
            members = members & self.members_of(uuids)
            yield (members | self.shape.of_roots(members))[rows]

    def each_trait(self, terms: TraitTerms, rows: SomeRows) -> Iterator[Mask]:
        """Yield which of the rows meet each constraint on traits."""
        traits, ids = self.shape.cloud.traits, self.names.traits
        for any_of in terms.required:
            yield traits.any_of(frozenset(ids[name] for name in any_of), rows)
        for name in sorted(terms.forbidden):
            yield ~traits.any_of(frozenset({ids[name]}), rows)

    def having(self, terms: TraitTerms, rows: SomeRows, found: Mask) -> None:
        """Leave of what was found so far the rows that meet the constraints on traits."""
        for met in self.each_trait(terms, rows):
            found &= met

    def _has_room(self, name: str, amount: int, rows: SomeRows) -> Mask:
        columns = self.shape.cloud.classes.get(self.names.classes[name])
        if columns is None:
            return np.zeros(number_of(rows), np.bool_)
        return columns.has_room(amount, rows)

    def _is_inside(self, uuids: frozenset[str], counted: CountedRoot, rows: SomeRows) -> Mask:
        members = self.members_of(uuids)
        if counted is not CountedRoot.NONE:
            members = members | self.shape.of_roots(members)
        found: Mask = members[rows]
        return found

    def members_of(self, uuids: frozenset[str]) -> Mask:
        """Return for each provider whether it is in one of these aggregates itself."""
        return self.shape.members_of(self.names.aggregate_ids(uuids))


def roots(shape: TreeIndex, search: TreeSearch, after: int) -> RowNumbers:
    """Return the rows of the roots with ids above ``after`` that are as required."""
    rows = shape.roots
    if after:
        rows = rows[np.searchsorted(shape.cloud.providers.ids[rows], after, "right") :]
    found = np.ones(len(rows), np.bool_)
    ConstraintEvaluator(shape, search.names).having(search.root, rows, found)
    return rows[found]


def serving_roots(shape: TreeIndex, search: TreeSearch, after: int) -> RowNumbers:
    """Return the rows of the roots with ids above ``after`` whose trees may serve."""
    cloud, evaluator = shape.cloud, ConstraintEvaluator(shape, search.names)
    count = evaluator.number_with_room
    found, rows = roots(shape, search, after), slice(0, len(cloud))
    # A sharing provider might bring a trait.
    sets = search.rules.trait_choices[: 0 if search.names.topology.sharing else _MAX_TRAIT_SETS]
    for choices in sets:
        found = found[_with_any(shape, cloud.traits.any_of(choices, rows), rows)[found]]
    few: RowNumbers | None = None
    # A class that one tree has, or few providers, leaves the fewest for the others.
    for slot in sorted(search.distinct_slots, key=lambda one: count(one.group)):
        if not len(found):
            break
        some: SomeRows = rows if few is None else few
        if few is None and slot.group.in_tree is not None:
            some = evaluator.rows_in_tree(slot.group.in_tree)
        before, found = len(found), found[_served(shape, slot, evaluator, some)[found]]
        if len(found) * _SPARSE < (before if few is not None else len(shape.roots)):
            few = shape.rows_of_trees(cloud.providers.ids[found])
    return found


def masks_of(shape: TreeIndex, search: TreeSearch, rows: RowNumbers, counted: CountedRoot) -> Mask:
    """Return for each of the rows which of ``distinct_slots`` the provider could serve."""
    evaluator, slots = ConstraintEvaluator(shape, search.names), search.distinct_slots
    masks = np.zeros((len(rows), len(slots)), np.bool_)
    for bit, slot in enumerate(slots):
        masks[:, bit] = evaluator.serving(slot.group, _counted(slot, counted), rows)
    return masks


def admits(slot: SlotGroup, evaluator: ConstraintEvaluator, roots: RowNumbers) -> Mask:
    """Return for each of these roots whether what shares with it may serve a slot."""
    forbidden = slot.group.aggregates.forbidden
    if slot.slot.suffix or not forbidden:
        return np.ones(len(roots), np.bool_)
    found: Mask = ~evaluator.members_of(forbidden)[roots]
    return found


def _served(
    shape: TreeIndex, slot: SlotGroup, evaluator: ConstraintEvaluator, rows: SomeRows
) -> Mask:
    """Return for each provider whether it is a root whose tree has one for a slot.

    It is one of these rows, or one that shares.
    """
    counted = _counted(slot, CountedRoot.OWN)
    found = _with_any(shape, evaluator.serving(slot.group, counted, rows), rows)
    if evaluator.names.topology.sharing:
        (_, anchors), (sharers, places) = shape.sharing, shape.distinct_sharers
        counted = _counted(slot, CountedRoot.OTHER)
        serves = evaluator.serving(slot.group, counted, sharers)[places]
        found[anchors[serves & admits(slot, evaluator, anchors)]] = True
    return found


def _counted(slot: SlotGroup, counted: CountedRoot) -> CountedRoot:
    """Return whose aggregates count for a slot: of a group with a suffix the provider's alone."""
    return CountedRoot.NONE if slot.slot.suffix else counted


def _with_any(shape: TreeIndex, mask: Mask, rows: SomeRows) -> Mask:
    """Return for each provider whether it is the root of one of these rows of which ``mask`` is."""
    roots = shape.root_rows[mask if isinstance(rows, slice) else rows[mask]]
    found = np.zeros(len(shape.cloud), np.bool_)
    found[roots[roots >= 0]] = True
    return found
