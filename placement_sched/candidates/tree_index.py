"""What follows from where the providers of a cloud are: trees, memberships, and what shares.

Made when first asked for, and again after a provider came, went or moved, or got other traits or
aggregates; most changes are of what is used.
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from placement_sched.candidates.columns import Mask, ProviderColumns, RowNumbers, in_ranges

#: So many sets of aggregates are remembered with their members.
_SETS = 32

_Ids = NDArray[np.int64]


class TreeIndex:
    """The trees of a cloud, as long as its ``shape`` is the same."""

    def __init__(self, cloud: ProviderColumns, shares: int | None) -> None:
        """``shares`` is the id of the trait of providers that share, None where there is none."""
        self.cloud, self._shares = cloud, shares
        self._members: dict[frozenset[int], Mask] = {}

    @cached_property
    def nested(self) -> bool:
        """Whether any provider has a parent."""
        return bool((self.cloud.providers.parents != 0).any())

    @cached_property
    def roots(self) -> RowNumbers:
        """The rows of all providers that are roots."""
        providers = self.cloud.providers
        return np.flatnonzero(providers.ids == providers.roots).astype(np.int32)

    @cached_property
    def sharers(self) -> RowNumbers:
        """The rows of all providers that share."""
        if self._shares is None:
            return np.empty(0, np.int32)
        whole = slice(0, len(self.cloud))
        found = self.cloud.traits.any_of(frozenset({self._shares}), whole)
        return np.flatnonzero(found).astype(np.int32)

    @cached_property
    def root_rows(self) -> RowNumbers:
        """The row of each provider's root, -1 for one without."""
        there, rows = self.cloud.places_of(self.cloud.providers.roots)
        found = np.full(len(self.cloud), -1, np.int32)
        found[there] = rows
        return found

    @cached_property
    def _by_root(self) -> tuple[RowNumbers, _Ids]:
        roots = self.cloud.providers.roots
        order = np.argsort(roots, kind="stable")
        return order.astype(np.int32), roots[order]

    def rows_of_trees(self, roots: _Ids) -> RowNumbers:
        """Return the rows of all providers whose root is one of these, ascending."""
        order, sorted_roots = self._by_root
        if len(roots) == 1:
            first, last = np.searchsorted(sorted_roots, (roots[0], roots[0] + 1))
            return np.sort(order[first:last])
        wanted = np.unique(roots)
        first = np.searchsorted(sorted_roots, wanted, "left")
        end = np.searchsorted(sorted_roots, wanted, "right")
        return np.sort(order[in_ranges(first, end)])

    def members_of(self, aggregates: frozenset[int]) -> Mask:
        """Return for each provider whether it is in one of these aggregates itself."""
        found = self._members.get(aggregates)
        if found is None:
            joined = self.cloud.memberships
            found = np.zeros(len(self.cloud), np.bool_)
            found[joined.rows[np.isin(joined.values["aggregate"], list(aggregates))]] = True
            if len(self._members) >= _SETS:
                self._members.clear()
            self._members[aggregates] = found
        return found

    def of_roots(self, mask: Mask) -> Mask:
        """Return for each provider whether something holds of its root."""
        roots = self.root_rows
        return mask[roots] & (roots >= 0)

    @cached_property
    def sharing(self) -> tuple[RowNumbers, RowNumbers]:
        """What shares with which tree: rows of providers and of roots, pair by pair, by root.

        A provider that shares does so with every other tree of which a provider is in one of its
        aggregates.
        """
        joined, number = self.cloud.memberships, len(self.cloud)
        of_sharers = np.isin(joined.rows, self.sharers)
        aggregates = joined.values["aggregate"]
        pairs: list[_Ids] = []
        for aggregate in np.unique(aggregates[of_sharers]).tolist():
            members = aggregates == aggregate
            sharing = joined.rows[members & of_sharers].astype(np.int64)
            roots = np.unique(self.root_rows[joined.rows[members]]).astype(np.int64)
            roots = roots[roots >= 0]
            pairs.append((roots[:, None] * number + sharing[None, :]).ravel())
        if not pairs:
            return np.empty(0, np.int32), np.empty(0, np.int32)
        keys = np.unique(np.concatenate(pairs))
        providers, roots = (keys % number).astype(np.int32), (keys // number).astype(np.int32)
        own = self.root_rows[providers]
        others = (own >= 0) & (own != roots)
        return providers[others], roots[others]

    def sharing_with(self, roots: RowNumbers) -> _Ids:
        """Return the places in :attr:`sharing` of the pairs of these roots, ascending."""
        anchors = self.sharing[1]
        first = np.searchsorted(anchors, roots, "left")
        return in_ranges(first, np.searchsorted(anchors, roots, "right"))

    @cached_property
    def distinct_sharers(self) -> tuple[RowNumbers, _Ids]:
        """The rows of the providers of :attr:`sharing`, each once, and the place of each pair's.

        Few share, and each of them with many trees.
        """
        distinct, places = np.unique(self.sharing[0], return_inverse=True)
        return distinct, places
