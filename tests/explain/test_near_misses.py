# SPDX-License-Identifier: Apache-2.0
"""Nearest misses: the smallest sets of constraints whose removal gives candidates."""

import pytest
from os_resource_classes import STANDARDS

from placement_sched.candidates.combine import WorkBudget
from placement_sched.candidates.search import prepare
from placement_sched.errors import TooComplex
from placement_sched.explain import near_misses as near_misses_module
from placement_sched.explain.near_misses import build_explanation_budget, find_near_misses
from placement_sched.explain.stages import CheckedTrees
from placement_sched.explain.values import NearMisses
from placement_sched.model.candidates_query import CandidatesQuery, RequestGroup, TraitTerms
from tests.candidates.documented import build_cloud, provider
from tests.candidates.sources import make_provider_source, search_and_explain_candidates
from tests.support.clouds import Cloud, load_cloud
from tests.support.statements import record_statements

pytestmark = pytest.mark.all_databases

BUDGET_OPTION = "placement.allocation_candidates_budget"
FORBIDDEN_TRAIT = "CUSTOM_OLD"
INVENTORY_TOTALS = {"VCPU": 8, "MEMORY_MB": 8, "DISK_GB": 8}
TOO_LARGE_QUERY = CandidatesQuery(
    groups=(
        RequestGroup(
            resources=tuple((name, 4000) for name in INVENTORY_TOTALS),
            traits=TraitTerms((), frozenset({FORBIDDEN_TRAIT})),
        ),
    )
)
FORBIDDEN_CHILD_PROVIDER = provider("child", under="CN0", traits=[FORBIDDEN_TRAIT])


def _build_hosts(count, **stock):
    return [
        provider(f"CN{n}", INVENTORY_TOTALS | stock, traits=[FORBIDDEN_TRAIT]) for n in range(count)
    ]


@pytest.mark.parametrize("hosts", [4, 40])
def test_number_of_statements_for_near_misses_does_not_depend_on_hosts(
    sqlite_database, sqlite_settings, hosts
):
    load_cloud(sqlite_database, build_cloud(*_build_hosts(hosts), FORBIDDEN_CHILD_PROVIDER))
    with record_statements(sqlite_database) as recorded_statements:
        _, reported = search_and_explain_candidates(
            sqlite_database, TOO_LARGE_QUERY, sqlite_settings
        )
    assert [miss.hosts for miss in reported.nearest_misses.misses] == [hosts]
    assert len(recorded_statements) == 10


def _build_tree_and_query_with_more_traits_than_can_be_combined(providers=13):
    """Return a tree, and a query for more traits than it has classes.

    Only the combination of nearly all providers shows that no candidate exists.
    """
    classes = STANDARDS[1:providers]
    stock = dict.fromkeys(classes, 4)
    names = [f"CUSTOM_T{number}" for number in range(providers)]
    children = [provider(f"of {name}", stock, under="CN", traits=[name]) for name in names]
    group = RequestGroup(
        resources=(("VCPU", 4000), *((name, 1) for name in classes)),
        traits=TraitTerms(tuple(frozenset({name}) for name in names)),
    )
    return build_cloud(provider("CN", {"VCPU": 8}), *children), CandidatesQuery(groups=(group,))


class CountingWorkBudget(WorkBudget):
    """A budget that counts its steps and its rejections."""

    def __init__(self, steps):
        super().__init__(steps)
        self.spent = 0
        self.rejections = 0

    def consume(self, steps):
        try:
            super().consume(steps)
        except TooComplex:
            self.rejections += 1
            raise
        self.spent += steps


def _find_near_misses(database, query, budget):
    with database.read() as connection:
        search = prepare(make_provider_source(connection), query)
        source = make_provider_source(connection)
        return find_near_misses(source, search, CheckedTrees.check(source, search), budget)


def test_near_misses_share_one_work_budget(sqlite_database):
    cloud, query = _build_tree_and_query_with_more_traits_than_can_be_combined()
    load_cloud(sqlite_database, cloud)
    budget = CountingWorkBudget(50_000)
    assert _find_near_misses(sqlite_database, query, budget) == NearMisses(complete=False)
    assert budget.spent <= 50_000
    assert budget.rejections == 1


def test_exhausted_work_budget_makes_near_misses_incomplete(sqlite_database):
    stock = {"VCPU": 8, "MEMORY_MB": 8}
    narrow = [provider("CN0", stock | {"VCPU": 1}), provider("CN1", stock | {"MEMORY_MB": 1})]
    load_cloud(sqlite_database, build_cloud(*narrow, provider("child", under="CN0")))
    group = RequestGroup(resources=(("VCPU", 4), ("MEMORY_MB", 4)))
    query = CandidatesQuery(groups=(group,))
    whole = CountingWorkBudget(0)
    every = _find_near_misses(sqlite_database, query, whole)
    assert (len(every.misses), every.complete) == (2, True)
    part = _find_near_misses(sqlite_database, query, WorkBudget(whole.spent - 1))
    assert part == NearMisses(every.misses[:1], complete=False)


def test_impossible_request_is_explained_within_part_of_the_budget(app):
    cloud, query = _build_tree_and_query_with_more_traits_than_can_be_combined()
    load_cloud(app.app.services.database, cloud)
    (group,) = query.groups
    specs = {f"resources:{name}": amount for name, amount in group.resources}
    specs |= {f"trait:{name}": "required" for any_of in group.traits.required for name in any_of}
    flavor = {"name": "f", "vcpus": 1, "memory_mb": 0, "root_gb": 0, "ephemeral_gb": 0, "swap": 0}
    flavor |= {"extra_specs": specs}
    document = {"flavor": flavor, "project_id": "p", "num_instances": 1, "image": None}
    response = app.post_json(
        "/scheduler/v1/select_destinations", {"request_spec": document}, status=409
    )
    (error,) = response.json["errors"]
    candidates = error["funnel"]["allocation_candidates"]
    assert candidates["nearest_misses_complete"] is False
    assert "nearest_misses" not in candidates
    assert "VCPU:4000 rejected the last remaining host" in error["detail"]


def test_explanation_uses_a_quarter_of_the_search_budget(settings):
    steps = settings.placement.allocation_candidates_budget
    budget = build_explanation_budget(settings, 0)
    budget.consume(steps // 4)
    with pytest.raises(TooComplex):
        budget.consume(1)
    build_explanation_budget(settings, 7).consume(steps // 4 + 700)
    build_explanation_budget(settings.with_overrides({BUDGET_OPTION: 0}), 0).consume(steps)
    build_explanation_budget(settings.with_overrides({BUDGET_OPTION: 1}), 0).consume(1)


#: Six children of four units cannot serve seven groups. The search needs 14 000 steps to find that.
SEVEN_GROUPS_QUERY = CandidatesQuery(
    groups=tuple(
        RequestGroup(suffix=f"_{n}", resources=(("SRIOV_NET_VF", 3 if n else 2),)) for n in range(7)
    ),
    group_policy="none",
)


def _build_host_with_nics(host, count, free):
    yield provider(host)
    for number in range(count):
        yield provider(f"{host} NIC{number}", {"SRIOV_NET_VF": free}, under=host)


def test_hosts_beyond_the_limit_are_counted_with_a_spent_budget(sqlite_database, sqlite_settings):
    crowded = [provider for n in range(3) for provider in _build_host_with_nics(f"CN{n}", 6, 4)]
    load_cloud(sqlite_database, build_cloud(*_build_host_with_nics("easy", 7, 4), *crowded))
    query = CandidatesQuery(groups=SEVEN_GROUPS_QUERY.groups, group_policy="none", limit=1)
    settings = sqlite_settings.with_overrides({BUDGET_OPTION: 1000})
    with pytest.raises(TooComplex):
        search_and_explain_candidates(sqlite_database, SEVEN_GROUPS_QUERY, settings)
    result, reported = search_and_explain_candidates(sqlite_database, query, settings)
    assert len(result.requests) == reported.hosts == 1
    last = reported.steps[-1]
    assert (last.constraint.family, last.before, last.after) == ("limit", 4, 1)


def test_host_beyond_the_explanation_budget_has_no_reason(
    sqlite_database, sqlite_settings, monkeypatch
):
    monkeypatch.setattr(near_misses_module, "_DIVISOR", 20)
    load_cloud(sqlite_database, Cloud(tuple(_build_host_with_nics("CN0", 6, 4))))
    _, reported = search_and_explain_candidates(
        sqlite_database, SEVEN_GROUPS_QUERY, sqlite_settings.with_overrides({BUDGET_OPTION: 20_000})
    )
    last = reported.steps[-1]
    assert (last.label, last.after) == ("combination", 0)
    reasons = [rejection.reason for rejection in last.rejected]
    assert reasons == ["no providers serve all request groups and resource classes together"]
    assert reported.nearest_misses == NearMisses(complete=False)
