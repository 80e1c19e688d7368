# SPDX-License-Identifier: Apache-2.0
"""Limits of work: expensive queries are rejected, other large queries are answered."""

from dataclasses import replace
from itertools import chain, islice, pairwise
from itertools import combinations as choose
from json import dumps

import os_traits
import pytest

from placement_sched.candidates import combine
from placement_sched.candidates.batches import CHARACTERS_PER_STEP
from placement_sched.candidates.combine import (
    FreeCapacity,
    ProviderTree,
    WorkBudget,
    can_serve,
    iterate_combinations,
)
from placement_sched.candidates.request import Rules
from placement_sched.errors import TooComplex, Unavailable
from placement_sched.model.candidates_query import (
    AggregateTerms,
    CandidatesQuery,
    RequestGroup,
    TraitTerms,
)
from tests.candidates.documented import build_cloud, provider
from tests.candidates.reference import SHARING_TRAIT
from tests.candidates.slots import build_request_slot
from tests.candidates.sources import search_and_explain_candidates
from tests.support.clouds import load_cloud, uuid_of
from tests.support.versions import LATEST_HEADERS

pytestmark = [pytest.mark.all_databases, pytest.mark.slow]

BUDGET_OPTION = "placement.allocation_candidates_budget"
MAX_MEMBER_OF_OPTION = "placement.max_member_of"
EIGHT_DEVICES_CLOUD = build_cloud(
    provider("CN"),
    *(provider(f"PF{number}", {"SRIOV_NET_VF": 8}, under="CN") for number in range(8)),
)


def _build_device_groups_query(groups, policy="isolate"):
    pairs = [f"resources{number}=SRIOV_NET_VF:1" for number in range(1, groups + 1)]
    return "&".join([*pairs, f"group_policy={policy}"])


def _get_candidates(app, query, status=200):
    return app.get(
        f"/placement/allocation_candidates?{query}", headers=LATEST_HEADERS, status=status
    )


@pytest.fixture
def make_eight_device_app(sqlite_settings, make_app):
    """Return a function that creates a client of a cloud with eight equal children."""
    load_cloud(make_app(sqlite_settings).app.services.database, EIGHT_DEVICES_CLOUD)

    def make_app_with_options(**options):
        return make_app(sqlite_settings.with_overrides(options))

    return make_app_with_options


def test_query_with_many_forbidden_traits_exceeds_a_small_work_budget(make_eight_device_app):
    """Each provider of a tree is compared with every condition."""
    named = [trait for trait in os_traits.get_traits() if trait.startswith("HW_CPU_X86_")][:60]
    forbidden = "&".join(
        f"required{number}={','.join(f'!{name}' for name in named[number : number + 20])}"
        for number in range(1, 31)
    )
    query = f"{_build_device_groups_query(30, 'none')}&{forbidden}&limit=1"
    _get_candidates(make_eight_device_app(**{BUDGET_OPTION: 5_000}), query)
    rejection = _get_candidates(make_eight_device_app(**{BUDGET_OPTION: 200}), query, status=400)
    assert rejection.json["errors"][0]["code"] == "placement.query.too_complex"


def test_candidate_search_stops_at_the_statement_timeout(monkeypatch):
    now = iter([100.0, 159.0, 161.0])
    monkeypatch.setattr(combine, "monotonic", lambda: next(now))
    budget = WorkBudget(0, seconds=60)
    budget.consume(1)
    with pytest.raises(Unavailable, match="read_timeout"):
        budget.consume(1)


def test_too_many_provider_combinations_are_rejected_with_the_option_name(make_eight_device_app):
    app = make_eight_device_app(**{BUDGET_OPTION: 10_000})
    (error,) = _get_candidates(app, _build_device_groups_query(6), status=400).json["errors"]
    assert error["code"] == "placement.query.too_complex"
    assert "allocation_candidates_budget" in error["detail"]
    app = make_eight_device_app(**{BUDGET_OPTION: 50_000})
    response = _get_candidates(app, f"{_build_device_groups_query(6)}&limit=1000").json
    assert len({str(each["mappings"]) for each in response["allocation_requests"]}) == 1000


def test_work_budget_of_zero_does_not_limit_a_search(make_eight_device_app):
    app = make_eight_device_app(**{BUDGET_OPTION: 0})
    number = len(_get_candidates(app, _build_device_groups_query(4)).json["allocation_requests"])
    assert number == 8 * 7 * 6 * 5


HUGE_MEMBER_OF_QUERY = f"resources=VCPU:1&member_of=in:{','.join([uuid_of('rack')] * 60_000)}"


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (_build_device_groups_query(2000), "2000 request groups"),
        (HUGE_MEMBER_OF_QUERY, "max_query_string_size"),
    ],
    ids=["groups", "megabytes"],
)
def test_huge_candidates_query_is_rejected(make_eight_device_app, query, words):
    (error,) = _get_candidates(make_eight_device_app(), query, status=400).json["errors"]
    assert words in error["detail"]


def _build_tree_of_equal_providers(providers, slots, free):
    """Return a tree of equal providers with ``free`` units each, which can serve any slot."""
    options = (tuple(range(providers)),) * slots
    capacities = {
        (provider, 1): FreeCapacity(amount=free, max_unit=100) for provider in range(providers)
    }
    return ProviderTree(options=options, free=capacities)


def _build_rules_of_slots(slots, *, isolate):
    requested = tuple(build_request_slot(str(number), (1, 1)) for number in range(slots))
    return Rules(slots=requested, isolate=isolate)


@pytest.mark.parametrize(
    ("providers", "slots", "free", "isolate", "served"),
    [
        (16, 16, 1, True, True),
        (16, 17, 1, True, False),
        (16, 17, 9, True, False),
        (16, 32, 2, False, True),
        (16, 33, 2, False, False),
    ],
)
def test_tree_serves_a_query_only_if_every_slot_matches_a_provider(
    providers, slots, free, isolate, served
):
    tree, rules = (
        _build_tree_of_equal_providers(providers, slots, free),
        _build_rules_of_slots(slots, isolate=isolate),
    )
    assert can_serve(tree, rules, WorkBudget(5000)) == served


def test_too_few_providers_for_groups_are_detected_in_a_single_step():
    assert not can_serve(
        _build_tree_of_equal_providers(16, 17, 1),
        _build_rules_of_slots(17, isolate=True),
        WorkBudget(1),
    )
    with pytest.raises(TooComplex):
        can_serve(
            _build_tree_of_equal_providers(16, 16, 1),
            _build_rules_of_slots(16, isolate=True),
            WorkBudget(100),
        )


def test_search_over_its_work_budget_is_stopped():
    # A provider of 4 units has no room for a second slot. The sum of all units does not show that.
    slots = tuple(build_request_slot(str(n), (1, 3 if n else 2)) for n in range(14))
    tree = _build_tree_of_equal_providers(13, 14, 4)
    with pytest.raises(TooComplex):
        list(iterate_combinations(tree, Rules(slots=slots), WorkBudget(10_000)))


def _find_smallest_sufficient_budget(subtrees):
    """Return the smallest budget that yields 1000 combinations of ten slots in these subtrees."""
    options = (tuple(range(8)),) * 10
    lines = {number: frozenset(range(number + 1)) for number in range(8)}
    slots = tuple(build_request_slot(str(number)) for number in range(10))
    rules = Rules(slots=slots, subtrees=subtrees)
    tree = ProviderTree(options=options, lineage=lines)
    for steps in (2_000 * 2**doubled for doubled in range(12)):
        try:
            found_combinations = list(
                islice(iterate_combinations(tree, rules, WorkBudget(steps)), 1000)
            )
        except TooComplex:
            continue
        assert len(found_combinations) == 1000
        return steps
    return None


def test_search_work_grows_with_the_number_of_same_subtree_rules():
    pairs = tuple(pairwise(range(10)))
    assert (
        _find_smallest_sufficient_budget(pairs[:3])
        == _find_smallest_sufficient_budget(pairs)
        == 2_000
    )
    every = tuple(chain(*(choose(range(10), size) for size in (2, 3, 4))))
    assert len(every) == 375
    assert _find_smallest_sufficient_budget(every) >= 2_000 * 32


LONG_SUFFIXES_QUERY = "&".join(
    f"resources_{'A' * 50}{number}=SRIOV_NET_VF:1" for number in range(9)
)


@pytest.mark.parametrize(
    "query",
    ["resources1=SRIOV_NET_VF:1", _build_device_groups_query(32, "none"), LONG_SUFFIXES_QUERY],
    ids=["1 group", "32 groups", "long suffixes"],
)
def test_search_work_grows_with_the_response_size(make_eight_device_app, query):
    query = query if "group_policy" in query else f"{query}&group_policy=none"
    reported = _get_candidates(make_eight_device_app(), f"{query}&limit=8").json[
        "allocation_requests"
    ]
    steps = sum(len(dumps(request)) for request in reported) // CHARACTERS_PER_STEP
    app = make_eight_device_app(**{BUDGET_OPTION: steps // 2})
    (error,) = _get_candidates(app, f"{query}&limit=8", status=400).json["errors"]
    assert error["code"] == "placement.query.too_complex"
    # The combinations of providers also cost work.
    app = make_eight_device_app(**{BUDGET_OPTION: steps * 4})
    assert _get_candidates(app, f"{query}&limit=8").json["allocation_requests"] == reported


def test_many_groups_on_one_child_use_bounded_memory(sqlite_settings, make_app):
    app = make_app(sqlite_settings.with_overrides({BUDGET_OPTION: 50_000}))
    gold = provider("PF0", {"SRIOV_NET_VF": 64}, under="CN", traits=["CUSTOM_GOLD"])
    plain = provider("PF1", {"SRIOV_NET_VF": 64}, under="CN")
    load_cloud(app.app.services.database, build_cloud(provider("CN"), gold, plain))
    pinned = "&".join(f"required{number}=CUSTOM_GOLD" for number in range(1, 47))
    query = f"{_build_device_groups_query(64, 'none')}&{pinned}"
    (error,) = _get_candidates(app, query, status=400).json["errors"]
    assert error["code"] == "placement.query.too_complex"
    response = _get_candidates(app, f"{query}&limit=100")
    assert len(response.json["allocation_requests"]) == 100
    assert len(response.body) < 50_000 * CHARACTERS_PER_STEP


def test_candidate_found_by_two_trees_is_counted_once(sqlite_settings, make_app):
    app = make_app(sqlite_settings.with_overrides({BUDGET_OPTION: 1000}))
    pool = provider("SS", {"DISK_GB": 99}, traits=[SHARING_TRAIT], aggregates=["a"])
    hosts = [provider(f"CN{number}", aggregates=["a"]) for number in range(500)]
    load_cloud(app.app.services.database, build_cloud(pool, *hosts))
    assert len(_get_candidates(app, "resources=DISK_GB:1").json["allocation_requests"]) == 1


def _build_cloud_of_pools_and_hosts(count, **stock):
    pools = [
        provider(f"SS{n}", {"SRIOV_NET_VF": 1}, traits=[SHARING_TRAIT], aggregates=["a"])
        for n in range(8)
    ]
    return build_cloud(*pools, *(provider(f"CN{n}", stock, aggregates=["a"]) for n in range(count)))


@pytest.mark.parametrize(("stock", "status"), [({}, 200), ({"SRIOV_NET_VF": 1}, 400)])
def test_equal_trees_share_the_search_cost(sqlite_settings, make_app, stock, status):
    app = make_app(sqlite_settings.with_overrides({BUDGET_OPTION: 3000}))
    load_cloud(app.app.services.database, _build_cloud_of_pools_and_hosts(400, **stock))
    response = _get_candidates(app, f"{_build_device_groups_query(20)}&limit=1", status=status).json
    if status == 400:
        assert response["errors"][0]["code"] == "placement.query.too_complex"
    else:
        assert response["allocation_requests"] == []


@pytest.mark.parametrize(("sets", "status"), [(3, 200), (4, 400)])
def test_too_many_member_of_terms_are_rejected(make_eight_device_app, sets, status):
    app = make_eight_device_app(**{MAX_MEMBER_OF_OPTION: 6})
    terms = [f"member_of={uuid_of(str(number))}" for number in range(sets)]
    query = "&".join(["resources=VCPU:1,DISK_GB:1", *terms])
    response = _get_candidates(app, query, status=status).json
    if status == 400:
        assert response["errors"][0]["code"] == "placement.query.too_complex"
        assert "8 sets of aggregates" in response["errors"][0]["detail"]
        assert "max_member_of" in response["errors"][0]["detail"]


@pytest.mark.parametrize("sharing", [False, True], ids=["tree", "sharing"])
def test_query_of_forty_groups_is_searched_and_explained(database, settings, sharing):
    shares = (
        [provider("SS", {"VCPU": 1}, traits=[SHARING_TRAIT], aggregates=["a"])] if sharing else []
    )
    cloud = build_cloud(
        provider("CN", {"VCPU": 1000}, traits=["CUSTOM_GOLD"], aggregates=["a"]),
        provider("NUMA0", {"VCPU": 1000}, under="CN"),
        *shares,
    )
    load_cloud(database, cloud)
    group = RequestGroup(
        resources=(("VCPU", 1),),
        traits=TraitTerms((frozenset({"CUSTOM_GOLD"}),)),
        aggregates=AggregateTerms((frozenset({uuid_of("a")}),)),
    )
    groups = tuple(replace(group, suffix=str(number)) for number in range(40))
    query = CandidatesQuery(groups=groups, group_policy="none", limit=10)
    result, reported = search_and_explain_candidates(database, query, settings)
    allocations = [dict(request.allocations) for request in result.requests]
    assert allocations == [{uuid_of("CN"): {"VCPU": 40}}]
    assert reported.hosts == 1
