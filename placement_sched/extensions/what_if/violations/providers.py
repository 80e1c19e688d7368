# SPDX-License-Identifier: Apache-2.0
"""A copy of all provider columns, in which claims can be released."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property

import numpy as np

from placement_sched.candidates.columns import ProviderColumns
from placement_sched.candidates.providers import ProviderSource
from placement_sched.candidates.request import ResolvedNames, Search, Topology, check_names
from placement_sched.candidates.tree_index import TreeIndex
from placement_sched.db.transaction import Connection
from placement_sched.model.candidates_query import CandidateProvider, CandidatesQuery
from placement_sched.model.provider import SHARES
from placement_sched.store.placement import provider_state

#: Uuid of a provider, resource class and used amount.
Claim = tuple[str, str, int]


class ReleasedProviders(ProviderSource):
    """The source of a search on some trees, without the claims of some servers.

    The columns are read once, and belong to this object alone. A thread uses it at a time.
    """

    reads_cheaply = True

    def __init__(self, connection: Connection) -> None:
        self._columns = ProviderColumns(provider_state.read_names(connection))
        for batch in provider_state.read_all_providers(connection):
            self._columns.replace([row[0] for row in batch.providers], batch)
        self._index = TreeIndex(self._columns, self._columns.names.traits.get(SHARES))
        self._roots: Collection[int] | None = None

    @contextmanager
    def open_columns(
        self, *_: object, **_parts: object
    ) -> Iterator[tuple[ProviderColumns, TreeIndex]]:
        """Return all columns, with the names of all resource classes and traits."""
        yield self._columns, self._index

    def resolve(self, query: CandidatesQuery) -> ResolvedNames:
        """Return the ids of all names of a query."""
        names = self._columns.names
        topology = Topology(self._index.has_nested, bool(len(self._index.sharers)))
        resolved = ResolvedNames(names.classes, names.traits, names.aggregates, topology)
        return check_names(query, resolved)

    def map_ids(self, uuids: Collection[str]) -> Mapping[str, int]:
        """Map the uuids of providers to their ids."""
        return self._columns.map_ids(uuids)

    @cached_property
    def root_uuids(self) -> Mapping[str, str]:
        """Map the uuid of each provider to the uuid of its root."""
        uuids, rows = self._columns.providers.uuids, self._index.root_rows
        pairs = zip(uuids.tolist(), rows.tolist(), strict=True)
        return {uuid: uuids[row] for uuid, row in pairs if row >= 0}

    @contextmanager
    def release(self, claims: Iterable[Claim], roots: Collection[str] | None) -> Iterator[None]:
        """Subtract claims, and find candidates only on the trees of ``roots``."""
        amounts: dict[str, Counter[str]] = defaultdict(Counter)
        for provider, name, used in claims:
            amounts[name][provider] += used
        self._add(amounts, -1)
        self._roots = None if roots is None else sorted(self.map_ids(roots).values())
        try:
            yield
        finally:
            self._add(amounts, 1)
            self._roots = None

    def _add(self, amounts: Mapping[str, Mapping[str, int]], sign: int) -> None:
        for name, used_amounts in amounts.items():
            class_columns = self._columns.classes.get(self._columns.names.classes.get(name, -1))
            if class_columns is None:
                continue
            ids = self.map_ids(used_amounts.keys())
            order = sorted(ids, key=ids.__getitem__)
            rows = self._columns.find_rows([ids[uuid] for uuid in order])
            positions, exist = class_columns.inventories.find_positions(rows)
            used = np.array([used_amounts[uuid] for uuid in order], np.int64)
            class_columns.inventories.values["used"][positions[exist]] += sign * used[exist]

    def find_single_providers(
        self, query: CandidatesQuery, names: ResolvedNames, limit: int | None
    ) -> tuple[CandidateProvider, ...]:
        """Return the providers that serve a single group, only of the chosen trees."""
        if self._roots is None:
            return super().find_single_providers(query, names, limit)
        return self.select_serving(query, names, self._roots)

    def find_serving_roots(
        self, search: Search, limit: int | None = None, after: int = 0
    ) -> list[int]:
        """Return the roots whose trees may serve, only of the chosen trees."""
        roots = super().find_serving_roots(search, None, after)
        if self._roots is not None:
            chosen = frozenset(self._roots)
            roots = [root for root in roots if root in chosen]
        return roots[:limit]
