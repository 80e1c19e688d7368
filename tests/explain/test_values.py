# SPDX-License-Identifier: Apache-2.0
"""Explanations as JSON."""

import pytest

from placement_sched.candidates.constraints import iterate_constraints
from placement_sched.explain.host_verdict import RejectReason
from placement_sched.explain.values import (
    CandidatesReport,
    ExplanationView,
    FilterReport,
    Funnel,
    HostReport,
    LaterInstanceReport,
    NearMiss,
    NearMisses,
    Obstacle,
    Rejected,
    RequestFilterReport,
    StepReport,
    WeigherReport,
    WeightReport,
    build_hosts_json,
)
from placement_sched.model.candidates_query import RequestGroup, TraitTerms
from placement_sched.model.constraint import COMBINATION, NOT_DISABLED, Constraint
from placement_sched.model.rejection import COMPUTE_NODES, USED_UP, Rejection

FOUR_OF_EIGHT = Rejection(
    kind="capacity", values={"resource_class": "VCPU", "requested": 8, "free": 4, "capacity": 16}
)
REJECTED_HOSTS = tuple(
    Rejected(f"cn{number}", f"node{number}", FOUR_OF_EIGHT) for number in range(1, 5)
)


def build_constraint(**group):
    (constraint,) = iterate_constraints(RequestGroup(**group))
    return constraint


def require_trait(name):
    return build_constraint(traits=TraitTerms((frozenset({name}),)))


EIGHT_VCPUS = build_constraint(resources=(("VCPU", 8),))
TRAIT_A = require_trait("A")
FUNNEL_OF_REJECTIONS = Funnel(
    request_filters=(
        RequestFilterReport(
            name="forbidden_aggregates",
            applied=True,
            elapsed_ms=0.41234,
            changes={"forbidden_aggregates": ["u"]},
        ),
    ),
    allocation_candidates=CandidatesReport(
        query="limit=1000",
        providers=1000,
        hosts=412,
        steps=(
            StepReport(constraint=EIGHT_VCPUS, before=1000, after=640, rejected=REJECTED_HOSTS),
        ),
    ),
    filters=(FilterReport(name="ComputeFilter", before=412, after=408, rejected=REJECTED_HOSTS),),
    weighers=(WeigherReport("RAMWeigher", 1.0),),
)


def test_explanation_funnel_has_the_documented_keys():
    values = {"kind": "capacity", "resource_class": "VCPU", "requested": 8}
    document = {
        "host": "cn1",
        "node": "node1",
        "reason": "VCPU: 4 free of 16, 8 requested",
        **values,
        "free": 4,
        "capacity": 16,
    }
    assert FUNNEL_OF_REJECTIONS.as_json(ExplanationView(max_rejected=1)) == {
        "request_filters": [
            {
                "name": "forbidden_aggregates",
                "applied": True,
                "elapsed_ms": 0.412,
                "changes": {"forbidden_aggregates": ["u"]},
            }
        ],
        "allocation_candidates": {
            "query": "limit=1000",
            "providers": 1000,
            "hosts": 412,
            "steps": [
                {
                    "constraint": "resources",
                    "detail": "VCPU:8",
                    **values,
                    "before": 1000,
                    "after": 640,
                    "rejected": [document],
                }
            ],
        },
        "filters": [{"name": "ComputeFilter", "before": 412, "after": 408, "rejected": [document]}],
        "weighers": [{"name": "RAMWeigher", "multiplier": 1.0}],
    }


def test_values_of_a_plugin_replace_no_other_key_of_an_entry():
    keys = ("stage", "name", "reason", "rejection", "applied", "changes", "host", "node")
    rejection = Rejection("no hall", values=dict.fromkeys(keys, "plugin"))
    report = RequestFilterReport(name="Hall", applied=True, elapsed_ms=1.0, rejection=rejection)
    entry = report.as_json()
    assert (entry["name"], entry["rejection"], entry["applied"]) == ("Hall", "no hall", True)
    entry = RejectReason("filters", "HallFilter", rejection).as_json()
    assert (entry["stage"], entry["name"], entry["changes"]) == ("filters", "HallFilter", [])
    entry = Obstacle("filters", "HallFilter", "no host", rejection.as_json()).as_json()
    assert (entry["stage"], entry["name"], entry["reason"]) == ("filters", "HallFilter", "no host")


@pytest.mark.parametrize(
    ("view", "hosts"),
    [
        (ExplanationView(), ["cn1", "cn2", "cn3", "cn4"]),
        (ExplanationView(max_rejected=0), ["cn1", "cn2", "cn3", "cn4"]),
        (ExplanationView(max_rejected=2), ["cn1", "cn2"]),
        (ExplanationView(frozenset({"cn3"})), ["cn3"]),
        (ExplanationView(frozenset({"node2", "cn4"})), ["cn2", "cn4"]),
        (ExplanationView(frozenset({"cn3", "cn4"}), max_rejected=1), ["cn3"]),
        (ExplanationView(frozenset()), []),
    ],
)
def test_explanation_view_limits_lists_of_hosts_and_not_their_counts(view, hosts):
    document = FUNNEL_OF_REJECTIONS.as_json(view)
    (step,) = document["allocation_candidates"]["steps"]
    (report,) = document["filters"]
    for part, counts in ((step, (1000, 640)), (report, (412, 408))):
        assert [entry["host"] for entry in part["rejected"]] == hosts
        assert (part["before"], part["after"]) == counts


def test_explanation_lists_at_most_a_hundred_hosts_by_default():
    many = tuple(Rejected(f"cn{number}", "n", FOUR_OF_EIGHT) for number in range(150))
    report = FilterReport(name="F", before=150, after=0, rejected=many)
    assert len(report.as_json(ExplanationView())["rejected"]) == 100
    assert len(report.as_json()["rejected"]) == 150


def test_detail_of_a_weigher_is_in_the_json_of_a_host():
    weights = {"Strands": WeightReport(-2.0, 1.0, 1.0, "leaves 4 VCPU")}
    (document,) = build_hosts_json([HostReport("cn1", "n", 1.0, weights)])
    assert document["weights"]["Strands"]["detail"] == "leaves 4 VCPU"


def test_accepted_hosts_of_an_explanation_are_not_limited():
    hosts = [
        HostReport(f"cn{number}", "n", 1.5, {"RAMWeigher": WeightReport(8192.0, 0.5, 3.0)})
        for number in (1, 2)
    ]
    assert len(build_hosts_json(hosts, ExplanationView(max_rejected=1))) == 2
    assert build_hosts_json(hosts, ExplanationView(frozenset({"cn2"}))) == [
        {
            "host": "cn2",
            "node": "n",
            "weight": 1.5,
            "weights": {
                "RAMWeigher": {"raw": 8192.0, "normalized": 0.5, "multiplier": 3.0, "weighted": 1.5}
            },
        }
    ]


THREE_NEAR_MISSES = [NearMiss((TRAIT_A, EIGHT_VCPUS), hosts) for hosts in (1, 2, 3)]


@pytest.mark.parametrize(
    ("complete", "maximum", "document"), [(True, 0, 3), (True, 3, 3), (True, 2, 2), (False, 0, 3)]
)
def test_nearest_misses_are_marked_if_incomplete(complete, maximum, document):
    obstacle = NearMisses.from_misses(THREE_NEAR_MISSES, complete=complete).as_json(
        ExplanationView(max_rejected=maximum)
    )
    assert [miss["hosts"] for miss in obstacle["nearest_misses"]] == [3, 2, 1][:document]
    assert obstacle.get("nearest_misses_complete", True) == (complete and document == 3)


def test_nearest_misses_are_omitted_if_none_was_found():
    assert NearMisses(complete=False).as_json() == {"nearest_misses_complete": False}
    assert NearMisses().as_json() == {}


def build_funnel(*, hosts=0, steps=(), misses=(), filters=(), **more) -> Funnel:
    return Funnel(
        request_filters=more.pop("request_filters", ()),
        allocation_candidates=CandidatesReport(
            query=more.pop("query", "resources=VCPU%3A1"),
            hosts=hosts,
            steps=steps,
            nearest_misses=NearMisses.from_misses(misses),
        ),
        filters=filters,
        selected=False,
        **more,
    )


def build_filter_report(name: str, before: int, after: int) -> FilterReport:
    return FilterReport(name=name, before=before, after=after)


REJECTING_FILTER = RequestFilterReport(
    name="zones", applied=True, elapsed_ms=1.0, rejection=Rejection("no zone 'x'")
)
NEAR_MISS_OF_TWO_CONSTRAINTS = NearMiss((require_trait("CUSTOM_A"), EIGHT_VCPUS), 1)
NEAR_MISS_OF_DISABLED_HOST = NearMiss((NOT_DISABLED, TRAIT_A), 1)
LATER_INSTANCE_WITHOUT_HOST = LaterInstanceReport(
    placed=1, requested=3, filters=(build_filter_report("B", 2, 0),)
)
LATER_INSTANCE_WITHOUT_CAPACITY = LaterInstanceReport(
    placed=4, requested=9, filters=(build_filter_report(USED_UP, 2, 0),)
)
STEP_REJECTING_ALL_HOSTS = (StepReport(TRAIT_A, 3, 0),)
#: For each funnel, stage, name and reason of its obstacle.
FUNNELS_BY_OBSTACLE = {
    "request_filters: zones: zones rejected the request: no zone 'x'": build_funnel(
        request_filters=(REJECTING_FILTER,), steps=(StepReport(TRAIT_A, 0, 0),)
    ),
    "allocation_candidates: required A: 3 hosts meet all constraints but required A": build_funnel(
        steps=STEP_REJECTING_ALL_HOSTS, misses=[NearMiss((TRAIT_A,), 3)]
    ),
    "allocation_candidates: root_required !COMPUTE_STATUS_DISABLED: "
    "8 hosts are disabled and meet all other constraints": build_funnel(
        steps=(StepReport(NOT_DISABLED, 8, 0),), misses=[NearMiss((NOT_DISABLED,), 8)]
    ),
    "allocation_candidates: root_required !COMPUTE_STATUS_DISABLED and required A: "
    "1 host is disabled and meets all constraints but required A": build_funnel(
        steps=(StepReport(NOT_DISABLED, 8, 0),), misses=[NEAR_MISS_OF_DISABLED_HOST]
    ),
    "allocation_candidates: required CUSTOM_A and resources VCPU:8: "
    "1 host meets all constraints but required CUSTOM_A and resources VCPU:8": build_funnel(
        steps=STEP_REJECTING_ALL_HOSTS, misses=[NEAR_MISS_OF_TWO_CONSTRAINTS]
    ),
    "allocation_candidates: combination: combination rejected all 3 remaining hosts": build_funnel(
        steps=(StepReport(TRAIT_A, 9, 3), StepReport(Constraint(COMBINATION), 3, 0))
    ),
    "allocation_candidates: providers: there is no resource provider": build_funnel(
        steps=(StepReport(TRAIT_A, 0, 0),)
    ),
    "allocation_candidates: requested_hosts: there is no such host": build_funnel(query=""),
    "filters: B: B rejected the last remaining host": build_funnel(
        hosts=3, filters=(build_filter_report("A", 3, 1), build_filter_report("B", 1, 0))
    ),
    "later_instance: B: 1 of the 3 instances fits, and for the next instance B rejected all 2 "
    "remaining hosts": build_funnel(hosts=3, later=LATER_INSTANCE_WITHOUT_HOST),
    "later_instance: room_left: 4 of the 9 instances fit, and for the next instance no host has "
    "remaining capacity": build_funnel(hosts=3, later=LATER_INSTANCE_WITHOUT_CAPACITY),
    "later_instance: : there are hosts for some of the instances, "
    "but not for all of them": build_funnel(hosts=3),
}


@pytest.mark.parametrize("expected", FUNNELS_BY_OBSTACLE)
def test_obstacle_of_an_explanation_is_the_stage_that_rejected_the_last_host(expected):
    obstacle = FUNNELS_BY_OBSTACLE[expected].as_json()["obstacle"]
    assert ": ".join(obstacle[key] for key in ("stage", "name", "reason")) == expected


def test_explanation_has_no_obstacle_if_hosts_were_found():
    assert FUNNEL_OF_REJECTIONS.obstacle is None


def test_obstacle_of_unknown_compute_nodes_names_nova_adopt():
    obstacle = build_funnel(
        hosts=3000, filters=(build_filter_report(COMPUTE_NODES, 3000, 0),)
    ).obstacle
    assert (obstacle.stage, obstacle.name) == ("filters", COMPUTE_NODES)
    assert obstacle.reason.startswith(
        "3000 hosts can take the request, but none is a known compute"
    )
    assert "placement-sched nova adopt" in obstacle.reason
    assert "PUT" not in obstacle.reason


def test_values_of_a_plugin_do_not_replace_the_keys_of_a_rejected_host():
    rejection = Rejection("own text", kind="acme", values={"host": "x", "reason": "y", "a": 1})
    assert Rejected("cn1", "n1", rejection).as_json() == {
        "host": "cn1",
        "node": "n1",
        "reason": "own text",
        "kind": "acme",
        "a": 1,
    }
