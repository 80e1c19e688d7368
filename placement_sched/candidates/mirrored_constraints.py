"""The constraints of a request as columns: which providers meet them all, in the mirror.

The same constraints as ``constraints`` has in SQL; property tests compare what both find.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np

from placement_sched.candidates.resolve import ResolvedNames
from placement_sched.mirror.columns import Mask, RowNumbers, SomeRows, number_of
from placement_sched.mirror.shape import CloudShape
from placement_sched.model.placement.query import RequestGroup, TraitTerms


class CountedRoot(Enum):
    """Whose aggregates count beside a provider's own: its root's, or no others.

    ``OTHER``: the provider shares with another tree. It is a member by itself only, but must not
    be in a forbidden aggregate by its own root either.
    """

    OWN = 1
    NONE = 2
    OTHER = 3


@dataclass(frozen=True, slots=True)
class Constrained:
    """Evaluates the groups of one request on a cloud that is held."""

    shape: CloudShape
    names: ResolvedNames
    _trees: dict[str, RowNumbers] = field(default_factory=dict)

    def serving(self, group: RequestGroup, counted: CountedRoot, rows: SomeRows) -> Mask:
        """Return for each of the rows whether the provider could serve the group alone."""
        if counted is CountedRoot.OWN and not self.names.topology.nested:
            counted = CountedRoot.NONE  # every provider is its own root
        if group.in_tree is not None:
            return self._serving_in_tree(group.in_tree, replace(group, in_tree=None), counted, rows)
        found = self._with_room(group.resources, rows)
        self.having(group.traits, rows, found)
        if group.aggregates.member_of and found.any():
            found &= self._is_member(group.aggregates.member_of, counted, rows)
        if group.aggregates.forbidden and found.any():
            found &= ~self._is_inside(group.aggregates.forbidden, counted, rows)
        return found

    def number_with_room(self, group: RequestGroup) -> int:
        """Return how many providers have room at most for a group; 0 where it names a tree."""
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

    def _with_room(self, resources: Sequence[tuple[str, int]], rows: SomeRows) -> Mask:
        found: Mask | None = None
        for resource in resources:
            fits = self._has_room(*resource, rows)
            found = fits if found is None else found & fits
            if not found.any():
                break
        return np.ones(number_of(rows), np.bool_) if found is None else found

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

    def each(self, group: RequestGroup, root: TraitTerms, rows: SomeRows) -> Iterator[Mask]:
        """Yield for each constraint which of the rows meet it, where every provider stands alone.

        In the order of ``constraints.alone``.
        """
        for resource in group.resources:
            yield self._has_room(*resource, rows)
        yield from self._each_trait(group.traits, rows)
        for uuids in group.aggregates.member_of:
            yield self.members_of(uuids)[rows]
        if group.aggregates.forbidden:
            yield ~self.members_of(group.aggregates.forbidden)[rows]
        if group.in_tree is not None:
            every = np.zeros(len(self.shape.cloud), np.bool_)
            every[self.rows_in_tree(group.in_tree)] = True
            yield every[rows]
        yield from self._each_trait(root, rows)

    def _each_trait(self, terms: TraitTerms, rows: SomeRows) -> Iterator[Mask]:
        traits, ids = self.shape.cloud.traits, self.names.traits
        for any_of in terms.required:
            yield traits.any_of(frozenset(ids[name] for name in any_of), rows)
        for name in sorted(terms.forbidden):
            yield ~traits.any_of(frozenset({ids[name]}), rows)

    def having(self, terms: TraitTerms, rows: SomeRows, found: Mask) -> None:
        """Leave of what was found so far the rows with the traits required, without others."""
        traits, ids = self.shape.cloud.traits, self.names.traits
        for any_of in terms.required:
            found &= traits.any_of(frozenset(ids[name] for name in any_of), rows)
        if terms.forbidden:
            found &= ~traits.any_of(frozenset(ids[name] for name in terms.forbidden), rows)

    def _has_room(self, name: str, amount: int, rows: SomeRows) -> Mask:
        columns = self.shape.cloud.classes.get(self.names.classes[name])
        if columns is None:
            return np.zeros(number_of(rows), np.bool_)
        return columns.has_room(amount, rows)

    def _is_member(
        self, member_of: Sequence[frozenset[str]], counted: CountedRoot, rows: SomeRows
    ) -> Mask:
        """Return who is in one of each of these sets: in all by itself, or in all by its root."""
        every = np.logical_and.reduce([self.members_of(uuids) for uuids in member_of])
        if counted is CountedRoot.OWN:
            every = every | self.shape.of_roots(every)
        found: Mask = every[rows]
        return found

    def _is_inside(self, uuids: frozenset[str], counted: CountedRoot, rows: SomeRows) -> Mask:
        members = self.members_of(uuids)
        if counted is not CountedRoot.NONE:
            members = members | self.shape.of_roots(members)
        found: Mask = members[rows]
        return found

    def members_of(self, uuids: frozenset[str]) -> Mask:
        """Return for each provider whether it is in one of these aggregates itself."""
        known = self.names.aggregates
        return self.shape.members_of(frozenset(known[uuid] for uuid in uuids if uuid in known))
