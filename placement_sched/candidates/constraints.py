# SPDX-License-Identifier: Apache-2.0
"""Evaluation of the constraints of a request on provider columns.

The columns are cached or loaded for a request. A search needs the providers that meet all
constraints of a group. An explanation needs the providers that meet each constraint. "May serve"
means that a tree has, for each slot, a provider that can serve it: in the tree, or sharing with the
tree. A combination of these providers may still break a rule, for instance ``group_policy``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np

from placement_sched.candidates.columns import Mask, RowNumbers, SomeRows, count_rows
from placement_sched.candidates.request import ResolvedNames, Search, Slot
from placement_sched.candidates.tree_index import TreeIndex
from placement_sched.model.candidates_query import (
    AggregateTerms,
    CandidatesQuery,
    RequestGroup,
    TraitTerms,
)
from placement_sched.model.constraint import (
    IN_TREE,
    ISOLATE,
    MEMBER_OF,
    REQUIRED,
    RESOURCES,
    ROOT_REQUIRED,
    SAME_SUBTREE,
    Constraint,
)

#: Maximum number of trait sets that are checked for each tree before its slots.
_MAX_TRAIT_SETS = 16
#: If less than 1/_SPARSE of the trees remain, later slots are evaluated for these trees only.
_SPARSE = 16


class CountedRoot(Enum):
    """The root provider whose aggregates count as aggregates of a provider.

    * ``OWN``: the root of the provider's tree.
    * ``NONE``: no root.
    * ``OTHER``: the provider shares with another tree. The aggregates of the provider's own root
      do not make it a member of a required aggregate, but exclude it if they are forbidden.
    """

    OWN = 1
    NONE = 2
    OTHER = 3


def iterate_constraints(group: RequestGroup) -> Iterator[Constraint]:
    """Yield the constraints of a group in the order of an explanation."""
    suffix = group.suffix
    for name, amount in group.resources:
        part = RequestGroup(resources=((name, amount),))
        yield Constraint(RESOURCES, part, resource_class=name, amount=amount, suffix=suffix)
    for constraint in _yield_trait_constraints(REQUIRED, group.traits):
        yield replace(constraint, suffix=suffix)
    for uuids in group.aggregates.member_of:
        part = RequestGroup(aggregates=AggregateTerms((uuids,)))
        yield Constraint(MEMBER_OF, part, tuple(sorted(uuids)), suffix=suffix)
    if forbidden := group.aggregates.forbidden:
        part = RequestGroup(aggregates=AggregateTerms((), forbidden))
        yield Constraint(MEMBER_OF, part, tuple(sorted(forbidden)), True, suffix=suffix)
    if group.in_tree is not None:
        part = RequestGroup(in_tree=group.in_tree)
        yield Constraint(IN_TREE, part, (group.in_tree,), suffix=suffix)


def iterate_root_constraints(terms: TraitTerms) -> Iterator[Constraint]:
    """Yield the constraints on the root of a tree."""
    return _yield_trait_constraints(ROOT_REQUIRED, terms)


def iterate_rules(query: CandidatesQuery) -> Iterator[Constraint]:
    """Yield the rules about the combination of groups."""
    if query.isolates:
        yield ISOLATE
    for suffixes in dict.fromkeys(query.same_subtrees):
        yield Constraint(SAME_SUBTREE, names=suffixes)


def _yield_trait_constraints(family: str, terms: TraitTerms) -> Iterator[Constraint]:
    for any_of in terms.required:
        yield Constraint(family, RequestGroup(traits=TraitTerms((any_of,))), tuple(sorted(any_of)))
    for name in sorted(terms.forbidden):
        part = RequestGroup(traits=TraitTerms((), frozenset({name})))
        yield Constraint(family, part, (name,), True)


@dataclass(frozen=True, slots=True)
class ConstraintEvaluator:
    """Evaluate request groups on provider columns."""

    index: TreeIndex
    names: ResolvedNames
    _trees: dict[str, RowNumbers] = field(default_factory=dict)

    def can_serve(self, group: RequestGroup, counted: CountedRoot, rows: SomeRows) -> Mask:
        """Return for each row whether it meets all constraints of a group."""
        if group.in_tree is not None:
            return self._can_serve_in_tree(
                group.in_tree, replace(group, in_tree=None), counted, rows
            )
        mask = np.ones(count_rows(rows), np.bool_)
        for met in self.iterate_masks(group, counted, rows):
            mask &= met
            if not mask.any():
                break
        return mask

    def count_fitting_providers(self, group: RequestGroup) -> int:
        """Estimate the number of providers that can serve a group.

        Only amounts count. Returns 0 for a group with ``in_tree``, because few providers can match.
        """
        if group.in_tree is not None:
            return 0
        columns, ids = self.index.columns.classes, self.names.classes
        return min(
            (
                columns[ids[name]].count_fitting_rows(amount) if ids[name] in columns else 0
                for name, amount in group.resources
            ),
            default=len(self.index.columns),
        )

    def _can_serve_in_tree(
        self, uuid: str, group: RequestGroup, counted: CountedRoot, rows: SomeRows
    ) -> Mask:
        mask = np.zeros(count_rows(rows), np.bool_)
        tree_rows = self.find_tree_rows(uuid)
        if not len(tree_rows):
            return mask
        if isinstance(rows, slice):
            tree_rows = tree_rows[(tree_rows >= rows.start) & (tree_rows < rows.stop)]
            positions = tree_rows - rows.start
        else:
            roots = self.index.columns.providers.roots
            positions = np.flatnonzero(roots[rows] == roots[tree_rows[0]])
            tree_rows = rows[positions]
        mask[positions] = self.can_serve(group, counted, tree_rows)
        return mask

    def find_tree_rows(self, uuid: str) -> RowNumbers:
        """Return the rows of all providers in the tree of a provider.

        Returns no rows if the provider does not exist.
        """
        rows = self._trees.get(uuid)
        if rows is None:
            columns = self.index.columns
            roots = columns.providers.roots[columns.find_rows(columns.map_ids([uuid]).values())]
            rows = self._trees[uuid] = self.index.find_tree_rows(roots[roots != 0])
        return rows

    def iterate_masks(
        self, group: RequestGroup, counted: CountedRoot, rows: SomeRows
    ) -> Iterator[Mask]:
        """Yield for each constraint a mask of the rows that meet it.

        The order is the same as in :func:`iterate_constraints`.
        """
        if not self.names.topology.has_nested and counted is CountedRoot.OWN:
            counted = CountedRoot.NONE  # every provider is its own root
        classes = self.index.columns.classes
        for name, amount in group.resources:
            if (inventories := classes.get(self.names.classes[name])) is None:
                yield np.zeros(count_rows(rows), np.bool_)
            else:
                yield inventories.has_capacity(amount, rows)
        yield from self.iterate_trait_masks(group.traits, rows)
        if counted is CountedRoot.OWN:
            yield from self._yield_members(group.aggregates.member_of, rows)
        else:
            for uuids in group.aggregates.member_of:
                yield self.is_member(uuids)[rows]
        if group.aggregates.forbidden:
            members = self.is_member(group.aggregates.forbidden)
            if counted is not CountedRoot.NONE:
                members = members | self.index.expand_from_roots(members)
            yield ~members[rows]
        if group.in_tree is not None:
            in_tree = np.zeros(len(self.index.columns), np.bool_)
            in_tree[self.find_tree_rows(group.in_tree)] = True
            yield in_tree[rows]

    def _yield_members(self, member_of: Sequence[frozenset[str]], rows: SomeRows) -> Iterator[Mask]:
        """Yield for each set a mask of the members of this and all earlier sets.

        A provider must be a member of all sets itself, or its root must be a member of all sets.
        """
        members = np.ones(len(self.index.columns), np.bool_)
        for uuids in member_of:
            members = members & self.is_member(uuids)
            yield (members | self.index.expand_from_roots(members))[rows]

    def iterate_trait_masks(self, terms: TraitTerms, rows: SomeRows) -> Iterator[Mask]:
        """Yield for each constraint on traits a mask of the rows that meet it."""
        traits, ids = self.index.columns.traits, self.names.traits
        for any_of in terms.required:
            yield traits.has_any_trait(frozenset(ids[name] for name in any_of), rows)
        for name in sorted(terms.forbidden):
            yield ~traits.has_any_trait(frozenset({ids[name]}), rows)

    def apply_trait_terms(self, terms: TraitTerms, rows: SomeRows, mask: Mask) -> None:
        """Clear in ``mask`` the rows that do not meet the constraints on traits."""
        for met in self.iterate_trait_masks(terms, rows):
            mask &= met

    def is_member(self, uuids: frozenset[str]) -> Mask:
        """Return for each provider whether it is in any of these aggregates."""
        return self.index.is_member(self.names.find_aggregate_ids(uuids))


def find_roots(index: TreeIndex, search: Search, after: int) -> RowNumbers:
    """Return rows of roots above id ``after`` that meet ``root_required``."""
    rows = index.roots
    if after:
        rows = rows[np.searchsorted(index.columns.providers.ids[rows], after, "right") :]
    mask = np.ones(len(rows), np.bool_)
    ConstraintEvaluator(index, search.names).apply_trait_terms(search.query.root, rows, mask)
    return rows[mask]


def find_serving_roots(index: TreeIndex, search: Search, after: int) -> RowNumbers:
    """Return the rows of roots with ids above ``after`` whose trees may serve."""
    columns, evaluator = index.columns, ConstraintEvaluator(index, search.names)
    count = evaluator.count_fitting_providers
    passing, rows = find_roots(index, search, after), slice(0, len(columns))
    # Traits are not checked if providers share, as a sharing provider may have the trait.
    sets = search.rules.trait_choices[: 0 if search.names.topology.has_sharing else _MAX_TRAIT_SETS]
    for choices in sets:
        passing = passing[
            _mark_roots(index, columns.traits.has_any_trait(choices, rows), rows)[passing]
        ]
    tree_rows: RowNumbers | None = None
    # Slots that the fewest providers can serve come first, so that few trees remain early.
    for slot in sorted(search.distinct_slots, key=lambda item: count(item.group)):
        if not len(passing):
            break
        scope: SomeRows = rows if tree_rows is None else tree_rows
        if tree_rows is None and slot.group.in_tree is not None:
            scope = evaluator.find_tree_rows(slot.group.in_tree)
        total, passing = (
            len(passing),
            passing[_find_served(index, slot, evaluator, scope)[passing]],
        )
        if len(passing) * _SPARSE < (total if tree_rows is not None else len(index.roots)):
            tree_rows = index.find_tree_rows(columns.providers.ids[passing])
    return passing


def compute_slot_masks(
    index: TreeIndex, search: Search, rows: RowNumbers, counted: CountedRoot
) -> Mask:
    """Return for each row the ``distinct_slots`` that it can serve."""
    evaluator, slots = ConstraintEvaluator(index, search.names), search.distinct_slots
    masks = np.zeros((len(rows), len(slots)), np.bool_)
    for bit, slot in enumerate(slots):
        masks[:, bit] = evaluator.can_serve(slot.group, _select_counted_root(slot, counted), rows)
    return masks


def can_use_sharing(slot: Slot, evaluator: ConstraintEvaluator, roots: RowNumbers) -> Mask:
    """Return for each root whether a sharing provider may serve its tree."""
    forbidden = slot.group.aggregates.forbidden
    if slot.suffix or not forbidden:
        return np.ones(len(roots), np.bool_)
    is_admitted: Mask = ~evaluator.is_member(forbidden)[roots]
    return is_admitted


def _find_served(
    index: TreeIndex, slot: Slot, evaluator: ConstraintEvaluator, rows: SomeRows
) -> Mask:
    """Return a mask of the roots whose trees can serve ``slot``.

    A tree can serve with a provider of the tree among ``rows``, or with a provider that
    shares with the tree.
    """
    own_root = _select_counted_root(slot, CountedRoot.OWN)
    is_served = _mark_roots(index, evaluator.can_serve(slot.group, own_root, rows), rows)
    if evaluator.names.topology.has_sharing:
        # Each sharing provider is evaluated once, although it is in a pair with each of its trees.
        sharers, sharer_of_pair = index.distinct_sharers
        _, root_of_pair = index.sharing_pairs
        other_root = _select_counted_root(slot, CountedRoot.OTHER)
        can_serve = evaluator.can_serve(slot.group, other_root, sharers)[sharer_of_pair]
        can_serve &= can_use_sharing(slot, evaluator, root_of_pair)
        is_served[root_of_pair[can_serve]] = True
    return is_served


def _select_counted_root(slot: Slot, counted: CountedRoot) -> CountedRoot:
    """Return ``counted``, or no root for a slot with a suffix."""
    return CountedRoot.NONE if slot.suffix else counted


def _mark_roots(index: TreeIndex, mask: Mask, rows: SomeRows) -> Mask:
    """Return a mask of the roots of the rows that ``mask`` selects."""
    roots = index.root_rows[rows][mask]
    is_root = np.zeros(len(index.columns), np.bool_)
    is_root[roots[roots >= 0]] = True
    return is_root
