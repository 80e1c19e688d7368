# SPDX-License-Identifier: Apache-2.0
"""Columns of all providers, without the claims of some servers."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property

import numpy as np

from placement_sched.candidates import constraints
from placement_sched.candidates.loader import LoadedProviders
from placement_sched.candidates.request import ResolvedNames, Search
from placement_sched.db.transaction import Connection
from placement_sched.model.candidates_query import CandidateProvider, CandidatesQuery

#: Uuid of a provider, resource class and used amount.
Claim = tuple[str, str, int]


class ReleasedProviders(LoadedProviders):
    """Source of a search on some trees, without the claims of some servers.

    All columns are read once.
    """

    reads_cheaply = True

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        with self.open_columns(whole=True, with_names=True) as (self.columns, self.index):
            self._roots: Collection[int] = ()

    @cached_property
    def root_uuids(self) -> Mapping[str, str]:
        """Map the uuid of each provider to the uuid of its root."""
        uuids, rows = self.columns.providers.uuids, self.index.root_rows
        pairs = zip(uuids.tolist(), rows.tolist(), strict=True)
        return {uuid: uuids[row] for uuid, row in pairs if row >= 0}

    @contextmanager
    def release(self, claims: Iterable[Claim], roots: Iterable[str]) -> Iterator[None]:
        """Subtract claims, and find candidates only on the trees of ``roots``."""
        amounts: dict[str, Counter[str]] = defaultdict(Counter)
        for provider, name, used in claims:
            amounts[name][provider] -= used
        self._roots = sorted(self.columns.map_ids(roots).values())
        self.columns.add_used(amounts)
        try:
            yield
        finally:
            self.columns.add_used(
                {name: {key: -used[key] for key in used} for name, used in amounts.items()}
            )

    def map_ids(self, uuids: Collection[str]) -> Mapping[str, int]:
        """Map the uuids of providers to their ids."""
        return self.columns.map_ids(uuids)

    def find_single_providers(
        self, query: CandidatesQuery, names: ResolvedNames, limit: int | None
    ) -> tuple[CandidateProvider, ...]:
        """Return the providers of the chosen trees that serve a single group."""
        return self.select_serving(query, names, self._roots)[:limit]

    def find_serving_roots(
        self, search: Search, limit: int | None = None, after: int = 0
    ) -> list[int]:
        """Return the roots of the chosen trees that may serve."""
        rows = constraints.find_serving_roots(self.index, search, after)
        ids = self.columns.providers.ids[rows]
        roots: list[int] = ids[np.isin(ids, list(self._roots))].tolist()
        return roots[:limit]
