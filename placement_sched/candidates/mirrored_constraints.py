"""The constraints of a request as columns: which providers meet them all, in the mirror.

The same constraints as ``constraints`` has in SQL; property tests compare what both find.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from placement_sched.candidates.resolve import ResolvedNames
from placement_sched.mirror.columns import Mask, SomeRows, number_of
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

    def serving(self, group: RequestGroup, counted: CountedRoot, rows: SomeRows) -> Mask:
        """Return for each of the rows whether the provider could serve the group alone."""
        if counted is CountedRoot.OWN and not self.names.topology.nested:
            counted = CountedRoot.NONE  # every provider is its own root
        found = np.ones(number_of(rows), np.bool_)
        self._tree(group.in_tree, rows, found)
        self._amounts(group, rows, found)
        self.having(group.traits, rows, found)
        if group.aggregates.member_of and found.any():
            found &= self._is_member(group.aggregates.member_of, counted, rows)
        if group.aggregates.forbidden and found.any():
            found &= ~self._is_inside(group.aggregates.forbidden, counted, rows)
        return found

    def having(self, terms: TraitTerms, rows: SomeRows, found: Mask) -> None:
        """Leave of what was found so far the rows with the traits required, without others."""
        traits, ids = self.shape.cloud.traits, self.names.traits
        for any_of in terms.required:
            found &= traits.any_of(frozenset(ids[name] for name in any_of), rows)
        if terms.forbidden:
            found &= ~traits.any_of(frozenset(ids[name] for name in terms.forbidden), rows)

    def _tree(self, uuid: str | None, rows: SomeRows, found: Mask) -> None:
        if uuid is None:
            return
        cloud = self.shape.cloud
        roots = cloud.providers.roots
        of_member = roots[cloud.rows_of(cloud.ids_of([uuid]).values())]
        found &= np.isin(roots[rows], of_member[of_member != 0])

    def _amounts(self, group: RequestGroup, rows: SomeRows, found: Mask) -> None:
        classes = self.shape.cloud.classes
        for name, amount in group.resources:
            columns = classes.get(self.names.classes[name])
            if columns is None:
                found[:] = False
                return
            found &= columns.has_room(amount, rows)

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
