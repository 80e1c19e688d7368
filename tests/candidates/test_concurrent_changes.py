# SPDX-License-Identifier: Apache-2.0
"""Searches while other clients change providers between two statements.

Reads have no transaction. Therefore each statement can read another state of the cloud.
"""

from itertools import count, pairwise
from random import Random

import pytest
from sqlalchemy import event

from placement_sched.api.placement.allocation_candidates import render
from placement_sched.api.versions import Version
from placement_sched.candidates.search import find, prepare, render_summaries
from placement_sched.explain.report import SearchRun, explain
from placement_sched.explain.values import ExplanationView
from placement_sched.model.candidates_query import CandidatesQuery, RequestGroup, TraitTerms
from placement_sched.store.compute.compute_nodes import NodeNames
from placement_sched.store.placement import resource_providers
from tests.candidates.documented import build_cloud, provider
from tests.candidates.reference import SHARING_TRAIT
from tests.candidates.reload import replace_cloud
from tests.candidates.sources import make_provider_source
from tests.support.clouds import Cloud, uuid_of
from tests.support.providers import NOW

pytestmark = pytest.mark.slow

HOSTS_WITH_NUMA_NODES = tuple(
    member
    for number in range(3)
    for member in (
        provider(f"CN{number}", {"VCPU": 8, "MEMORY_MB": 64}, traits=["CUSTOM_GOLD"]),
        provider(f"NUMA{number}", {"VCPU": 8}, under=f"CN{number}", aggregates=["disk"]),
    )
)
CLOUD_WITH_SHARED_STORAGE = build_cloud(
    *HOSTS_WITH_NUMA_NODES,
    provider("array", {"PCPU": 9}),
    provider("shelf", {"DISK_GB": 500}, under="array", traits=[SHARING_TRAIT], aggregates=["disk"]),
    provider("tray", {"DISK_GB": 500}, under="shelf", traits=[SHARING_TRAIT], aggregates=["disk"]),
)
CLOUD_OF_ROOT_PROVIDERS = Cloud(
    tuple(host for host in HOSTS_WITH_NUMA_NODES if host.parent is None)
)


def _build_query_of_trees(vcpus):
    """Return a query whose search executes every kind of statement for trees."""
    unsuffixed = RequestGroup(
        resources=(("VCPU", vcpus), ("DISK_GB", 1)),
        traits=TraitTerms((frozenset({"CUSTOM_GOLD", SHARING_TRAIT}),)),
    )
    disks = [RequestGroup(suffix=suffix, resources=(("DISK_GB", 1),)) for suffix in ("_A", "_B")]
    return CandidatesQuery(
        groups=(unsuffixed, *disks), group_policy="none", same_subtrees=(("_A", "_B"),)
    )


def _make_removal_of_providers(*names):
    return lambda connection: resource_providers.remove_whole(connection, [*map(uuid_of, names)])


def _make_move_of_provider(name, parent):
    return lambda connection: resource_providers.move(
        connection, uuid_of(name), uuid_of(parent), anywhere=True, now=NOW
    )


CONCURRENT_CHANGES = {
    "sharing providers deleted": _make_removal_of_providers("shelf"),
    "sharing provider moved": _make_move_of_provider("tray", "CN0"),
    "tree deleted": _make_removal_of_providers("CN0"),
    "child deleted": _make_removal_of_providers("NUMA1"),
    "child moved": _make_move_of_provider("NUMA0", "array"),
}


def _search_and_explain_candidates(connection, query, options):
    search = prepare(make_provider_source(connection), query)
    result = find(make_provider_source(connection), search, options, Random(1))
    providers = make_provider_source(connection).list_tree_providers(
        [provider.id for provider in result.providers]
    )
    render_summaries(make_provider_source(connection), providers)
    render(result.requests, Version(1, 39))
    return explain(
        SearchRun(
            connection, make_provider_source(connection), search, result, options, NodeNames()
        ),
        ExplanationView(),
    )


def _search_with_change_at_each_statement(database, settings, cloud, change, query):
    """Repeat a search with the change before each of its statements. Return their number."""
    for number in count(1):
        replace_cloud(database, cloud)
        statement_numbers = []

        def change_at_statement(*_, number=number, statement_numbers=statement_numbers):
            statement_numbers.append(number)
            if len(statement_numbers) == number:
                database.write(change)

        event.listen(database.reader, "before_cursor_execute", change_at_statement)
        with database.read() as connection:
            reported = _search_and_explain_candidates(connection, query, settings)
        event.remove(database.reader, "before_cursor_execute", change_at_statement)
        stages = [(step.before, step.after) for step in reported.steps]
        assert all(after == before for (_, after), (before, _) in pairwise(stages))
        if len(statement_numbers) < number:
            return len(statement_numbers)
    return 0


@pytest.mark.parametrize("vcpus", [1, pytest.param(100, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("change", CONCURRENT_CHANGES.values(), ids=CONCURRENT_CHANGES)
def test_search_does_not_fail_if_trees_change_between_its_statements(
    sqlite_database, sqlite_settings, change, vcpus
):
    query = _build_query_of_trees(vcpus)
    assert (
        _search_with_change_at_each_statement(
            sqlite_database, sqlite_settings, CLOUD_WITH_SHARED_STORAGE, change, query
        )
        > 12
    )


@pytest.mark.parametrize("vcpus", [1, pytest.param(100, marks=pytest.mark.exhaustive)])
def test_search_does_not_fail_if_a_provider_is_deleted_between_its_statements(
    sqlite_database, sqlite_settings, vcpus
):
    group = RequestGroup(
        resources=(("VCPU", vcpus), ("MEMORY_MB", vcpus)),
        traits=TraitTerms((frozenset({"CUSTOM_GOLD"}),)),
    )
    query, change = CandidatesQuery(groups=(group,)), _make_removal_of_providers("CN1")
    assert (
        _search_with_change_at_each_statement(
            sqlite_database, sqlite_settings, CLOUD_OF_ROOT_PROVIDERS, change, query
        )
        > 3
    )
