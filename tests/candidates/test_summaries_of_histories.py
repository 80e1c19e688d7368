# SPDX-License-Identifier: Apache-2.0
"""Summaries that were read of a write that a failover lost are not shown for the next one."""

from random import Random

import pytest
from sqlalchemy import update

from placement_sched.candidates.cache import ProviderCache
from placement_sched.candidates.loader import LoadedProviders
from placement_sched.candidates.providers import CachedProviders
from placement_sched.candidates.search import find, prepare
from placement_sched.candidates.summaries import Summaries, SummaryFields
from placement_sched.db.failover import HISTORY, epoch_of
from placement_sched.db.tables import inventories
from placement_sched.model.candidates_query import CandidatesQuery, RequestGroup
from tests.candidates.changing import RecordedChanges
from tests.candidates.documented import provider
from tests.support.clouds import Cloud, load_cloud

QUERY = CandidatesQuery(groups=(RequestGroup(resources=(("VCPU", 1),)),))


def _cached_providers(connection):
    cache = ProviderCache(
        RecordedChanges()
    )  # which reads all again, as the log of changes is in doubt
    assert cache.refresh(connection)
    return CachedProviders(cache, epoch_of(connection))


def _write_inventory_with_equal_generation(database, total):
    """Write inventories that the next writer would give the same generation."""
    database.write(lambda connection: connection.execute(update(inventories).values(total=total)))


@pytest.mark.parametrize("source_of", [LoadedProviders, _cached_providers])
@pytest.mark.parametrize("trees", [True, False], ids=["newest form", "older form"])
def test_generations_of_another_server_epoch_are_not_reused(
    sqlite_database, sqlite_settings, source_of, trees
):
    load_cloud(sqlite_database, Cloud((provider("CN", {"VCPU": 8}),)))
    summaries = Summaries()
    fields = SummaryFields(classes=None, traits=True, tree=trees)

    def shown(history):
        with sqlite_database.read() as connection:
            connection.info[HISTORY] = history
            source = source_of(connection)
            search = prepare(source, QUERY)
            found = find(source, search, sqlite_settings, Random(1))
            names = search.names.class_names
            return summaries.render(source, found.providers, names, fields)

    def capacity(history):
        return int(b"".join(shown(history)).partition(b'"capacity":')[2].partition(b",")[0])

    assert capacity("first") == 8
    _write_inventory_with_equal_generation(sqlite_database, 99)
    assert capacity("first") == 8  # what the generation alone says
    assert capacity("second") == 99
    assert capacity("second") == 99
