# SPDX-License-Identifier: Apache-2.0
"""Providers for a search: loaded for each request, or from a provider cache."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine, select

from placement_sched.candidates.cache import ProviderCache
from placement_sched.candidates.loader import LoadedProviders
from placement_sched.candidates.providers import CachedProviders, ProviderSource
from placement_sched.candidates.search import find, prepare
from placement_sched.config.settings import Settings
from placement_sched.db.tables import resource_providers
from placement_sched.db.transaction import Database
from placement_sched.explain.report import SearchRun, explain
from placement_sched.explain.values import CandidatesReport, ExplanationView
from placement_sched.model.candidates_query import Candidates, CandidatesQuery
from placement_sched.store.compute.compute_nodes import NodeNames
from placement_sched.store.placement.change_log import Changes


@dataclass
class ChangeLogWithEveryProvider:
    """A change log that reports all existing and deleted providers, and all names, as changed."""

    provider_ids: set[int] = field(default_factory=set)

    def find_defect(self, connection):
        return None

    def begin(self, connection):
        return 0

    def read(self, connection, position):
        self.provider_ids.update(connection.scalars(select(resource_providers.c.id)))
        return Changes(position, frozenset(self.provider_ids), names=True)

    def read_late_rows(self, _connection, position):
        return Changes(position)


_PROVIDER_CACHES: WeakKeyDictionary[Engine, ProviderCache] = WeakKeyDictionary()
_USES_PROVIDER_CACHE = [False]


@contextmanager
def enable_provider_cache() -> Iterator[None]:
    """Let searches use a provider cache."""
    _USES_PROVIDER_CACHE.append(True)
    yield
    _USES_PROVIDER_CACHE.pop()


def make_provider_source(connection: Connection) -> ProviderSource:
    """Return the providers of a database."""
    if not _USES_PROVIDER_CACHE[-1]:
        return LoadedProviders(connection)
    cache = _PROVIDER_CACHES.setdefault(
        connection.engine, ProviderCache(ChangeLogWithEveryProvider())
    )
    assert cache.refresh(connection)
    return CachedProviders(cache)


def find_candidates(
    database: Database, query: CandidatesQuery, settings: Settings, seed: int = 7, **options: Any
) -> Candidates:
    """Search the providers of a database."""
    with database.read() as connection:
        source = make_provider_source(connection)
        return find(source, prepare(source, query), settings, Random(seed), **options)


def search_and_explain_candidates(
    database: Database, query: CandidatesQuery, settings: Settings
) -> tuple[Candidates, CandidatesReport]:
    """Search the providers of a database, and explain the result."""
    with database.read() as connection:
        source = make_provider_source(connection)
        search = prepare(source, query)
        candidates = find(source, search, settings, Random(1))
        run = SearchRun(connection, source, search, candidates, settings, NodeNames())
        return candidates, explain(run, ExplanationView())
