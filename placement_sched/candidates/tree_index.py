# SPDX-License-Identifier: Apache-2.0
"""Index of provider trees, aggregate members and sharing providers.

A sharing provider has the trait MISC_SHARES_VIA_AGGREGATE. It shares its inventories with every
other tree that has a provider in any of its aggregates, and can serve slots of these trees. The
index is built at the first use, and again after a provider was added, removed or moved, or its
traits or aggregates changed. Most changes only affect used amounts, and the index stays valid.
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from placement_sched.candidates.columns import Mask, ProviderColumns, RowNumbers, expand_ranges

_MAX_CACHED_SETS = 32

_Ids = NDArray[np.int64]


class TreeIndex:
    """Provider trees, valid while :attr:`is_current`."""

    def __init__(self, columns: ProviderColumns, sharing_trait: int | None) -> None:
        """Index columns, with the id of the trait of sharing providers, or None."""
        self.columns, self._sharing_trait = columns, sharing_trait
        self._version = columns.structure_version
        self._members: dict[frozenset[int], Mask] = {}

    @property
    def is_current(self) -> bool:
        """Return whether the structure of the columns is still the same."""
        return self._version == self.columns.structure_version

    @cached_property
    def has_nested(self) -> bool:
        """Return whether any provider has a parent."""
        return bool((self.columns.providers.parents != 0).any())

    @cached_property
    def roots(self) -> RowNumbers:
        """Return the rows of all roots."""
        providers = self.columns.providers
        return np.flatnonzero(providers.ids == providers.roots).astype(np.int32)

    @cached_property
    def sharers(self) -> RowNumbers:
        """Return the rows of all sharing providers."""
        if self._sharing_trait is None:
            return np.empty(0, np.int32)
        whole = slice(0, len(self.columns))
        is_sharer = self.columns.traits.has_any_trait(frozenset({self._sharing_trait}), whole)
        return np.flatnonzero(is_sharer).astype(np.int32)

    @cached_property
    def root_rows(self) -> RowNumbers:
        """Return the row of each provider's root, or -1 without a root."""
        has_root, rows = self.columns.find_existing_rows(self.columns.providers.roots)
        root_rows = np.full(len(self.columns), -1, np.int32)
        root_rows[has_root] = rows
        return root_rows

    @cached_property
    def _by_root(self) -> tuple[RowNumbers, _Ids]:
        roots = self.columns.providers.roots
        order = np.argsort(roots, kind="stable")
        return order.astype(np.int32), roots[order]

    def find_tree_rows(self, roots: _Ids) -> RowNumbers:
        """Return the sorted rows of all providers in the trees of these roots."""
        order, sorted_roots = self._by_root
        if len(roots) == 1:
            first, last = np.searchsorted(sorted_roots, (roots[0], roots[0] + 1))
            return np.sort(order[first:last])
        distinct_roots = np.unique(roots)
        first = np.searchsorted(sorted_roots, distinct_roots, "left")
        end = np.searchsorted(sorted_roots, distinct_roots, "right")
        return np.sort(order[expand_ranges(first, end)])

    def is_member(self, aggregates: frozenset[int]) -> Mask:
        """Return for each provider whether it is in any of these aggregates."""
        members = self._members.get(aggregates)
        if members is None:
            memberships = self.columns.memberships
            members = np.zeros(len(self.columns), np.bool_)
            members[
                memberships.rows[np.isin(memberships.values["aggregate"], list(aggregates))]
            ] = True
            if len(self._members) >= _MAX_CACHED_SETS:
                self._members.clear()
            self._members[aggregates] = members
        return members

    def expand_from_roots(self, mask: Mask) -> Mask:
        """Return for each provider the value of its root in ``mask``, or False."""
        roots = self.root_rows
        return mask[roots] & (roots >= 0)

    @cached_property
    def sharing_pairs(self) -> tuple[RowNumbers, RowNumbers]:
        """Return all pairs of a sharing provider and a root whose tree it serves.

        Returns the rows of the providers, and the rows of the roots, sorted by root.
        """
        memberships, number = self.columns.memberships, len(self.columns)
        of_sharers = np.isin(memberships.rows, self.sharers)
        aggregates = memberships.values["aggregate"]
        pairs: list[_Ids] = []
        for aggregate in np.unique(aggregates[of_sharers]).tolist():
            members = aggregates == aggregate
            sharing = memberships.rows[members & of_sharers].astype(np.int64)
            roots = np.unique(self.root_rows[memberships.rows[members]]).astype(np.int64)
            roots = roots[roots >= 0]
            pairs.append((roots[:, None] * number + sharing[None, :]).ravel())
        if not pairs:
            return np.empty(0, np.int32), np.empty(0, np.int32)
        keys = np.unique(np.concatenate(pairs))
        providers, roots = (keys % number).astype(np.int32), (keys // number).astype(np.int32)
        own = self.root_rows[providers]
        is_other_tree = (own >= 0) & (own != roots)
        return providers[is_other_tree], roots[is_other_tree]

    def find_sharing_pairs(self, roots: RowNumbers) -> _Ids:
        """Return sorted positions in :attr:`sharing_pairs` for these roots."""
        anchors = self.sharing_pairs[1]
        first = np.searchsorted(anchors, roots, "left")
        return expand_ranges(first, np.searchsorted(anchors, roots, "right"))

    @cached_property
    def distinct_sharers(self) -> tuple[RowNumbers, _Ids]:
        """Return the rows of the distinct providers in :attr:`sharing_pairs`.

        The second value has the index of each pair's provider in the first value. Constraints are
        evaluated once for each provider, because few providers share, each with many trees.
        """
        distinct, places = np.unique(self.sharing_pairs[0], return_inverse=True)
        return distinct, places
