# SPDX-License-Identifier: Apache-2.0
"""The loader of a request: SQL selects few more providers than the response has."""

from random import Random

import pytest

from placement_sched.candidates.loader import LoadedProviders
from placement_sched.candidates.search import find, prepare
from placement_sched.model.candidates_query import (
    AggregateTerms,
    CandidatesQuery,
    RequestGroup,
    TraitTerms,
)
from placement_sched.model.provider import SHARES
from tests.candidates.documented import provider
from tests.support.clouds import Cloud, load_cloud, uuid_of
from tests.support.statements import record_statements


def build_candidates_query(
    required=(), forbidden=(), member_of=(), outside=(), root=None, limit=None, **resources
):
    group = RequestGroup(
        resources=tuple((resources or {"VCPU": 1}).items()),
        traits=TraitTerms(tuple(map(frozenset, required)), frozenset(forbidden)),
        aggregates=AggregateTerms(tuple(map(frozenset, member_of)), frozenset(outside)),
    )
    return CandidatesQuery(groups=(group,), root=root or TraitTerms(), limit=limit)


def build_hosts(number):
    return [
        provider(
            f"CN{at:03}",
            {"VCPU": 8 if at % 3 else 1, "MEMORY_MB": 8},
            traits=["CUSTOM_GOLD"] if at % 2 else [],
            aggregates=["a1"] if at % 5 else ["a2"],
        )
        for at in range(number)
    ]


GROUP_TERMS_BY_CASE = {
    "all fit": {"MEMORY_MB": 1},
    "some have the amount": {"VCPU": 4},
    "some have the trait": {"required": [["CUSTOM_GOLD"]]},
    "some lack the trait": {"forbidden": ["CUSTOM_GOLD"]},
    "some roots have the trait": {"root": TraitTerms((frozenset({"CUSTOM_GOLD"}),))},
    "some roots lack the trait": {"root": TraitTerms((), frozenset({"CUSTOM_GOLD"}))},
    "some are in the aggregate": {"member_of": [[uuid_of("a2")]]},
    "some are in a forbidden aggregate": {"outside": [uuid_of("a1"), uuid_of("nowhere")]},
    "all of it": {
        "required": [["CUSTOM_GOLD"]],
        "member_of": [[uuid_of("a1"), uuid_of("a2")], [uuid_of("a1")]],
        "outside": [uuid_of("a2")],
        "VCPU": 4,
    },
}


@pytest.mark.all_databases
@pytest.mark.parametrize("limit", [None, 7])
@pytest.mark.parametrize("terms", GROUP_TERMS_BY_CASE.values(), ids=GROUP_TERMS_BY_CASE)
def test_loader_reads_only_returned_providers(database, settings, terms, limit):
    load_cloud(database, Cloud(tuple(build_hosts(60))))
    with database.read() as connection:
        source = LoadedProviders(connection)
        search = prepare(source, build_candidates_query(**terms, limit=limit))
        result = find(source, search, settings, Random(1))
        with source.open_columns() as (columns, _):
            assert len(columns) == len(result.providers) > 0


def build_trees_with_shared_disk(number):
    for at in range(number):
        host = f"CN{at:03}"
        yield provider(host, {"MEMORY_MB": 8}, aggregates=["shared"] if at % 2 else [])
        yield provider(f"{host} NUMA", {"VCPU": 8 if at % 4 else 1}, under=host)
    yield provider("pool", {"DISK_GB": 100}, traits=[SHARES], aggregates=["shared"])


def test_few_trees_are_loaded_under_a_limit(sqlite_database, sqlite_settings):
    load_cloud(sqlite_database, Cloud(tuple(build_trees_with_shared_disk(200))))
    query = build_candidates_query(VCPU=4, MEMORY_MB=1, limit=5)
    with sqlite_database.read() as connection:
        source = LoadedProviders(connection)
        result = find(source, prepare(source, query), sqlite_settings, Random(1))
        with source.open_columns() as (columns, _):
            assert len(columns) < 40
    assert len(result.requests) == 5


def test_sharing_providers_are_loaded_with_their_trees(sqlite_database, sqlite_settings):
    load_cloud(sqlite_database, Cloud(tuple(build_trees_with_shared_disk(20))))
    query = build_candidates_query(VCPU=1, DISK_GB=1)
    with sqlite_database.read() as connection:
        source = LoadedProviders(connection)
        search = prepare(source, query)
        result = find(source, search, sqlite_settings, Random(1))
        with record_statements(sqlite_database) as recorded_statements:
            described = source.list_tree_providers([provider.id for provider in result.providers])
    assert len(result.requests) == 10
    assert {uuid_of("pool"), uuid_of("CN001"), uuid_of("CN001 NUMA")} <= {
        provider.uuid for provider in described
    }
    assert len(recorded_statements) == 0
