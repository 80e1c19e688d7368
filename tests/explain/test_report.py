# SPDX-License-Identifier: Apache-2.0
"""Explanations of candidates queries: steps, rejections and nearest misses."""

from dataclasses import replace
from itertools import combinations, pairwise
from random import Random

import pytest
from hypothesis import given

from placement_sched.candidates.search import find, prepare
from placement_sched.explain.report import SearchRun, map_rejections_by_root
from placement_sched.explain.values import ExplanationView, NearMisses, constraint_as_json
from placement_sched.model.candidates_query import AggregateTerms, CandidatesQuery
from placement_sched.store.compute.compute_nodes import NodeNames
from tests.candidates.documented import (
    AGGREGATE_A,
    AGGREGATE_C,
    FPGA_CLOUD,
    SRIOV_CARD_CLOUD,
    build_cloud,
    provider,
)
from tests.candidates.prefixes import (
    build_relaxed_query,
    list_constraint_names,
    list_partial_queries,
)
from tests.candidates.reference import (
    find_all_candidates,
    find_candidates_by_tree,
    has_provider_for_each_slot,
)
from tests.candidates.reload import replace_cloud
from tests.candidates.sources import make_provider_source
from tests.candidates.strategies import (
    build_property_test_settings,
    random_clouds,
    random_groups,
    random_queries,
    random_tree_clouds,
)
from tests.explain.explained import (
    ISOLATED_GROUPS_QUERY,
    SAME_SUBTREE_QUERY,
    build_request_group,
    explain_search,
)
from tests.support.clouds import Cloud, Host, build_inventory, load_cloud, uuid_of

pytestmark = pytest.mark.usefixtures("with_and_without_provider_cache")

PROPERTY_TEST_SETTINGS = build_property_test_settings(20)


def check_nearest_misses(cloud, query, reported):
    """Check that the smallest sets of constraints whose removal gives candidates are reported."""
    if reported.hosts:
        assert reported.nearest_misses == NearMisses()
        return
    expected = {}
    terms = list_constraint_names(query)
    for size in range(1, len(terms) + 1 if cloud.hosts else 1):
        for dropped in combinations(terms, size):
            every = find_candidates_by_tree(cloud, build_relaxed_query(query, dropped)).values()
            if trees := sum(map(bool, every)):
                expected[frozenset(dropped)] = trees
        if expected:
            break
    assert {
        frozenset(_list_terms(miss)): miss.hosts for miss in reported.nearest_misses.misses
    } == expected
    counts = [miss.hosts for miss in reported.nearest_misses.misses]
    assert counts == sorted(counts, reverse=True)


def _list_terms(miss):
    keys = map(constraint_as_json, miss.constraints)
    return [(each["constraint"], each["detail"]) for each in keys]


@PROPERTY_TEST_SETTINGS
@given(cloud=random_clouds(), group=random_groups())
def test_provider_is_rejected_by_the_first_unmet_constraint(database, settings, cloud, group):
    replace_cloud(database, cloud)
    query = CandidatesQuery(groups=(group,))
    _, reported = explain_search(database, query, settings)
    _check_rejection_steps(cloud, query, reported)
    assert reported.hosts == len(find_all_candidates(cloud, query))
    check_nearest_misses(cloud, query, reported)


@pytest.mark.all_databases
@PROPERTY_TEST_SETTINGS
@given(cloud=random_tree_clouds(), query=random_queries())
def test_trees_are_rejected_by_the_first_unmet_constraint(database, settings, cloud, query):
    replace_cloud(database, cloud)
    unbounded = settings.with_overrides({"placement.allocation_candidates_budget": 0})
    result, reported = explain_search(database, query, unbounded)
    _check_rejection_steps(cloud, query, reported)
    assert reported.hosts == len({request.root_uuid for request in result.requests})
    check_nearest_misses(cloud, query, reported)


def _check_rejection_steps(cloud, query, reported):
    remaining_roots = {host.name for host in cloud.hosts if host.parent is None}
    assert reported.providers == len(remaining_roots)
    steps = iter(reported.steps)
    for name, prefix in list_partial_queries(query):
        step = next(steps)
        rejected = {
            root
            for root in remaining_roots
            if not has_provider_for_each_slot(cloud, prefix, cloud[root])
        }
        keys = constraint_as_json(step.constraint)
        assert (keys["constraint"], keys["detail"]) == name
        assert (step.before, step.after) == (len(remaining_roots), len(remaining_roots - rejected))
        assert {rejection.host for rejection in step.rejected} == rejected
        assert all(rejection.reason for rejection in step.rejected)
        remaining_roots -= rejected
    last_steps = list(steps)
    assert [step.constraint.family for step in last_steps] in ([], ["combination"])
    for step in last_steps:
        assert (step.before, step.after) == (len(remaining_roots), reported.hosts)
        assert len(step.rejected) == step.before - step.after
    if not last_steps:
        assert len(remaining_roots) == reported.hosts
    assert all(earlier.after == later.before for earlier, later in pairwise(reported.steps))


@pytest.mark.all_databases
@pytest.mark.parametrize("child", [(), (provider("child", under="cn00"),)], ids=["flat", "trees"])
def test_hosts_beyond_the_limit_are_counted_in_the_last_explained_step(database, settings, child):
    load_cloud(
        database,
        build_cloud(*(Host(f"cn{n:02}", build_inventory("VCPU", 4)) for n in range(20)), *child),
    )
    query = CandidatesQuery(groups=(build_request_group(VCPU=1),), limit=3)
    _, reported = explain_search(database, query, settings, ExplanationView())
    last = reported.steps[-1]
    assert (last.constraint.family, last.before, last.after) == ("limit", 20, 3)


def _list_suggested_changes_for_single_tree(database, settings, cloud, query):
    """Return the advised changes of an explanation for the tree CN only."""
    load_cloud(database, cloud)
    with database.read() as connection:
        search = prepare(make_provider_source(connection), query)
        result = find(make_provider_source(connection), search, settings, Random(7))
        run = SearchRun(
            connection, make_provider_source(connection), search, result, settings, NodeNames()
        )
        steps = map_rejections_by_root(run, [uuid_of("CN")])
    return [change for step in steps[uuid_of("CN")].steps for change in step.rejected[0].changes]


@pytest.mark.parametrize(
    ("cloud", "query", "words", "after"),
    [
        (
            SRIOV_CARD_CLOUD,
            ISOLATED_GROUPS_QUERY,
            "use group_policy=none",
            replace(ISOLATED_GROUPS_QUERY, group_policy="none"),
        ),
        (
            FPGA_CLOUD,
            SAME_SUBTREE_QUERY,
            "drop same_subtree=_A,_B",
            replace(SAME_SUBTREE_QUERY, same_subtrees=()),
        ),
    ],
    ids=["isolated groups", "one subtree"],
)
def test_dropping_the_suggested_constraint_makes_a_tree_match(
    sqlite_database, sqlite_settings, cloud, query, words, after
):
    (change,) = _list_suggested_changes_for_single_tree(
        sqlite_database, sqlite_settings, cloud, query
    )
    assert (change.action, change.words) == ("drop_constraint", words)
    with sqlite_database.read() as connection:
        search = prepare(make_provider_source(connection), after)
        assert find(make_provider_source(connection), search, sqlite_settings, Random(7)).requests


CLOUD_WITH_NUMA_NODE = build_cloud(
    provider("CN", aggregates=["aggA"]),
    provider("NUMA0", {"VCPU": 4}, under="CN", aggregates=["aggC"]),
)


@pytest.mark.parametrize(
    ("aggregate", "suffix", "values"),
    [
        (AGGREGATE_A, "", {}),
        (AGGREGATE_C, "", {"provider": "NUMA0"}),
        (AGGREGATE_C, "1", {"provider": "NUMA0"}),
    ],
    ids=["of the root", "of a child", "of a child and a suffixed group"],
)
def test_suggested_change_removes_a_provider_from_a_forbidden_aggregate(
    sqlite_database, sqlite_settings, aggregate, suffix, values
):
    terms = AggregateTerms((), frozenset({aggregate}))
    query = CandidatesQuery(
        groups=(replace(build_request_group(suffix, VCPU=1), aggregates=terms),)
    )
    changes = _list_suggested_changes_for_single_tree(
        sqlite_database, sqlite_settings, CLOUD_WITH_NUMA_NODE, query
    )
    assert changes[0].action == "leave_aggregate"
    assert changes[0].values == {"aggregates": [aggregate], **values}


@pytest.mark.parametrize(("aggregate", "suffix"), [(AGGREGATE_A, ""), (AGGREGATE_C, "1")])
def test_rejection_names_only_the_forbidden_aggregates_of_the_host(
    sqlite_database, sqlite_settings, aggregate, suffix
):
    terms = AggregateTerms((), frozenset({aggregate, uuid_of("other aggregate")}))
    group = replace(build_request_group(suffix, VCPU=1), aggregates=terms)
    load_cloud(sqlite_database, CLOUD_WITH_NUMA_NODE)
    query = CandidatesQuery(groups=(group,))
    _, reported = explain_search(sqlite_database, query, sqlite_settings)
    step = reported.steps[-1]
    (rejected,) = step.rejected
    assert rejected.rejection.values["aggregates"] == [aggregate]
    assert len(step.as_json()["aggregates"]) == 2


@pytest.mark.parametrize(("amount", "lacking"), [(3, 2), (4, 4)])
def test_combined_capacity_shortage_is_reported_exactly(
    sqlite_database, sqlite_settings, amount, lacking
):
    query = CandidatesQuery(
        groups=tuple(
            build_request_group(suffix, SRIOV_NET_VF=amount) for suffix in ("1", "2", "3")
        ),
        group_policy="none",
    )
    (change,) = _list_suggested_changes_for_single_tree(
        sqlite_database, sqlite_settings, SRIOV_CARD_CLOUD, query
    )
    assert change.words == f"free {lacking} more of SRIOV_NET_VF on PF1_1"
    assert (change.action, change.values["amount"]) == ("make_room", lacking)

    def has_candidates_with_more_devices(more):
        hosts = [
            replace(provider, inventories=build_inventory("SRIOV_NET_VF", 4 + more))
            if provider.name == "PF1_1"
            else provider
            for provider in SRIOV_CARD_CLOUD.hosts
        ]
        return bool(find_candidates_by_tree(Cloud(tuple(hosts)), query)[uuid_of("CN")])

    assert (
        has_candidates_with_more_devices(lacking - 1),
        has_candidates_with_more_devices(lacking),
    ) == (False, True)
