"""What would take too long is refused or ends, and what is merely much is answered."""

from random import Random
from time import monotonic

import pytest

from placement_sched.candidates.combine import (
    Budget,
    Room,
    Rules,
    Slot,
    Tree,
    can_serve,
    combinations,
)
from placement_sched.candidates.explain import explain
from placement_sched.candidates.search import find, prepare
from placement_sched.errors import TooComplex
from placement_sched.model.query import AggregateTerms, CandidatesQuery, RequestGroup, TraitTerms
from placement_sched.model.report import View
from tests.candidates.documented import provider
from tests.candidates.reference import SHARES
from tests.clouds import Cloud, load, uuid_of

VERSION = {"OpenStack-API-Version": "placement 1.39"}
BUDGET = "placement.allocation_candidates_budget"
EQUAL = Cloud(
    (
        provider("CN"),
        *(provider(f"PF{number}", {"SRIOV_NET_VF": 8}, under="CN") for number in range(8)),
    )
)


def _asking(groups, policy="isolate"):
    pairs = [f"resources{number}=SRIOV_NET_VF:1" for number in range(1, groups + 1)]
    return "&".join([*pairs, f"group_policy={policy}"])


def _get(app, query, status=200):
    return app.get(f"/placement/allocation_candidates?{query}", headers=VERSION, status=status)


@pytest.fixture
def equal(sqlite_settings, make_app):
    """Return a client of a cloud with eight equal children, under a budget of so much."""

    def open_with(**options):
        app = make_app(sqlite_settings.overridden(options))
        load(app.app.services.database, EQUAL)
        return app

    return open_with


def test_six_groups_on_eight_equal_children_are_cut_at_the_limit(equal):
    app = equal(**{BUDGET: 20_000})
    answer = _get(app, f"{_asking(6)}&limit=1000").json
    told = {str(request["mappings"]) for request in answer["allocation_requests"]}
    assert len(told) == len(answer["allocation_requests"]) == 1000


def test_more_groups_than_providers_are_found_out_without_trying(equal):
    app = equal(**{BUDGET: 1})
    assert _get(app, _asking(9)).json["allocation_requests"] == []


def test_more_combinations_than_the_budget_allows_are_refused_by_name(equal):
    app = equal(**{BUDGET: 10_000})
    (error,) = _get(app, _asking(6), status=400).json["errors"]
    assert error["code"] == "placement.query.too_complex"
    assert "allocation_candidates_budget" in error["detail"]
    assert len(_get(app, f"{_asking(6)}&limit=10").json["allocation_requests"]) == 10


def test_budget_of_zero_is_no_bound(equal):
    app = equal(**{BUDGET: 0})
    assert len(_get(app, _asking(4)).json["allocation_requests"]) == 8 * 7 * 6 * 5


def test_thousands_of_groups_are_refused(equal):
    (error,) = _get(equal(), _asking(2000), status=400).json["errors"]
    assert error["code"] == "placement.query.too_complex"
    assert "2000 request groups" in error["detail"]


def test_megabytes_of_query_are_refused(equal):
    query = f"resources=VCPU:1&member_of=in:{','.join([uuid_of('rack')] * 60_000)}"
    (error,) = _get(equal(), query, status=400).json["errors"]
    assert "max_query_string_size" in error["detail"]


def _tree(providers, slots, free):
    """Return a tree of equal providers with so much free each, and slots that ask for one."""
    options = (tuple(range(providers)),) * slots
    rooms = {(provider, 1): Room(free=free, max_unit=100) for provider in range(providers)}
    return Tree(options=options, rooms=rooms)


def _rules(slots, *, isolate):
    asked = tuple(Slot(suffix=str(number), amounts=((1, 1),)) for number in range(slots))
    return Rules(slots=asked, isolate=isolate)


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
def test_seats_are_counted_before_combinations_are_tried(providers, slots, free, isolate, served):
    tree, rules = _tree(providers, slots, free), _rules(slots, isolate=isolate)
    assert can_serve(tree, rules, Budget(5000)) == served


def test_search_without_an_end_is_stopped():
    # Two seats are too few for three that want two units each, which counting units does not see.
    slots = tuple(Slot(suffix=str(n), amounts=((1, 3 if n else 2),)) for n in range(14))
    tree = _tree(13, 14, 4)
    with pytest.raises(TooComplex):
        list(combinations(tree, Rules(slots=slots), Budget(10_000)))


@pytest.mark.parametrize("sharing", [False, True], ids=["tree", "sharing"])
def test_forty_groups_are_answered_and_explained_in_seconds(database, settings, sharing):
    shares = [provider("SS", {"VCPU": 1}, traits=[SHARES], aggregates=["a"])] if sharing else []
    cloud = Cloud(
        (
            provider("CN", {"VCPU": 1000}, traits=["CUSTOM_GOLD"], aggregates=["a"]),
            provider("NUMA0", {"VCPU": 1000}, under="CN"),
            *shares,
        )
    )
    load(database, cloud)
    group = RequestGroup(
        resources=(("VCPU", 1),),
        traits=TraitTerms((frozenset({"CUSTOM_GOLD"}),)),
        aggregates=AggregateTerms((frozenset({uuid_of("a")}),)),
    )
    groups = tuple(
        RequestGroup(
            suffix=str(number),
            resources=group.resources,
            traits=group.traits,
            aggregates=group.aggregates,
        )
        for number in range(40)
    )
    query = CandidatesQuery(groups=groups, group_policy="none", limit=10)
    began = monotonic()
    with database.read() as connection:
        search = prepare(connection, query)
        found = find(connection, search, settings, Random(1))
        told = explain(connection, search, found, settings, View())
    assert [dict(request.allocations) for request in found.requests] == [
        {uuid_of("CN"): {"VCPU": 40}}
    ]
    assert told.hosts == 1
    assert monotonic() - began < 60


@pytest.mark.parametrize("child", [(), (provider("child", under="CN"),)], ids=["flat", "trees"])
def test_hundred_required_traits_are_answered_in_seconds(database, settings, child):
    traits = [f"CUSTOM_TRAIT_{number}" for number in range(100)]
    load(database, Cloud((provider("CN", {"VCPU": 8}, traits=traits), *child)))
    required = TraitTerms(tuple(frozenset({name}) for name in traits))
    group = RequestGroup(resources=(("VCPU", 1),), traits=required)
    began = monotonic()
    with database.read() as connection:
        search = prepare(connection, CandidatesQuery(groups=(group,)))
        found = find(connection, search, settings, Random(1))
    assert [request.root_uuid for request in found.requests] == [uuid_of("CN")]
    assert monotonic() - began < 30
