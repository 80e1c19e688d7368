# SPDX-License-Identifier: Apache-2.0
"""Extra specs that nova logs and ignores do not keep an instance from finding a host."""

import logging

import pytest

from placement_sched.model.explanation import FLAVOR, IgnoredValue
from placement_sched.scheduler import caches
from tests.scheduler.test_scheduler import explain, select
from tests.support.scheduling import flavor, instance, report, spec

ODD = {
    "trait:HW_CPU_X86_AVX2": "optional",
    "resources:BOGUS": "1",
    "resources:VCPU": "2.0",
    "resources1:VGPU": "",
    "group_policy": "bogus",
}
WARNINGS = [
    {
        "key": "trait:HW_CPU_X86_AVX2",
        "source": "flavor",
        "detail": "ignored: flavor extra spec trait:HW_CPU_X86_AVX2=optional: "
        "expected required or forbidden",
    },
    {
        "key": "resources:BOGUS",
        "source": "flavor",
        "detail": "ignored: flavor extra spec resources:BOGUS=1: expected a standard resource "
        "class, or a name that begins with CUSTOM_",
    },
    {
        "key": "resources:VCPU",
        "source": "flavor",
        "detail": "ignored: flavor extra spec resources:VCPU=2.0: expected a whole number that is "
        "not negative",
    },
    {
        "key": "resources1:VGPU",
        "source": "flavor",
        "detail": "ignored: flavor extra spec resources1:VGPU=: expected a whole number that is "
        "not negative",
    },
    {
        "key": "group_policy",
        "source": "flavor",
        "detail": "ignored: flavor extra spec group_policy=bogus: expected none or isolate",
    },
]
STRICT = {"scheduler.strict_extra_specs": True}


@pytest.fixture
def cloud(sqlite_app):
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [report(f"cn{n}") for n in (1, 2)])
    return sqlite_app


def odd(*instances, **fields):
    return spec(*instances, flavor=flavor(extra_specs=ODD, **fields))


def kept(cloud, uuid):
    return cloud.get(f"/scheduler/v1/decisions/{uuid}").json["funnel"]


def test_funnel_has_a_warning_for_each_and_the_hosts_are_those_without_them(cloud):
    told, plain = explain(cloud, odd()), explain(cloud, spec())
    assert told["funnel"]["warnings"] == WARNINGS
    assert told["outcome"] == "selected"
    query = told["funnel"]["allocation_candidates"]["query"]
    assert query == plain["funnel"]["allocation_candidates"]["query"]
    assert told["hosts"] == plain["hosts"]
    assert "warnings" not in plain["funnel"]


def test_instance_is_placed_and_its_decision_has_the_warnings(cloud):
    answer = select(cloud, odd(instance(1)))
    ((selection,),) = answer["selections"]
    (taken,) = selection["allocation_request"]["allocations"].values()
    assert taken["resources"]["VCPU"] == 1
    assert kept(cloud, answer["decision"])["warnings"] == WARNINGS


def test_error_that_no_host_is_found_has_the_warnings(cloud):
    body = {"request_spec": odd(instance(1), vcpus=999)}
    (error,) = cloud.post_json("/scheduler/v1/select_destinations", body, status=409).json["errors"]
    assert error["code"] == "scheduler.no_valid_host"
    assert error["funnel"]["warnings"] == WARNINGS
    assert kept(cloud, error["decision"])["warnings"] == WARNINGS


def test_second_question_of_pinned_cpus_warns_no_second_time(cloud):
    extra_specs = {"hw:cpu_policy": "dedicated", "trait:CUSTOM_A": "preferred"}
    told = explain(cloud, spec(flavor=flavor(extra_specs=extra_specs)))
    assert told["funnel"]["allocation_candidates"]["fallback"]["query"]
    assert [one["key"] for one in told["funnel"]["warnings"]] == ["trait:CUSTOM_A"]


def test_each_is_logged_once_for_a_key_and_value(cloud, caplog):
    with caplog.at_level(logging.WARNING, logger=caches.__name__):
        for number in (1, 2):
            select(cloud, odd(instance(number)))
            explain(cloud, odd())
        explain(cloud, spec(flavor=flavor(extra_specs={"group_policy": "other"})))
    logged = [one.getMessage() for one in caplog.records if one.name == caches.__name__]
    other = "ignored: flavor extra spec group_policy=other: expected none or isolate"
    assert logged == [*(one["detail"] for one in WARNINGS), other]


def test_log_remembers_no_more_than_so_many(caplog, monkeypatch):
    monkeypatch.setattr(caches, "IGNORED", 3)
    log = caches.IgnoredLog()
    some = [
        IgnoredValue(FLAVOR, "group_policy", str(number), "none or isolate") for number in range(4)
    ]
    with caplog.at_level(logging.WARNING):
        for one in [*some[:3], *some[:3], some[3], some[3], some[0]]:
            log.log([one])
    values = [one.getMessage().partition("=")[2].partition(":")[0] for one in caplog.records]
    assert values == ["0", "1", "2", "3", "0"]


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("trait:A", "a\nb", "trait:A='a\\nb'"),
        ("trait:A\n", "", "'trait:A\\n'="),
        ("trait:A", "x" * 999, "trait:A=" + "x" * 100 + "..."),
    ],
)
def test_warning_is_one_line_of_a_few_words(key, value, shown):
    detail = IgnoredValue(FLAVOR, key, value, "required or forbidden").detail
    assert detail == f"ignored: flavor extra spec {shown}: expected required or forbidden"


def test_strict_refuses_the_request_by_the_first_key(cloud):
    body = {"request_spec": odd(), "overrides": STRICT}
    (error,) = cloud.post_json("/scheduler/v1/explain", body, status=400).json["errors"]
    assert error["detail"] == (
        "flavor extra spec 'trait:HW_CPU_X86_AVX2': expected required or forbidden, got 'optional'"
    )
    assert explain(cloud, spec(), overrides=STRICT)["outcome"] == "selected"


def test_flavor_of_former_days_finds_a_host_though_the_api_takes_no_such_values_now(cloud):
    """Before 2.86 extra specs were not looked at, and what was written then is still there."""
    flavors = "/compute/v2.1/flavors"
    body = {"flavor": {"name": "old", "ram": 512, "vcpus": 1, "disk": 1, "id": "old"}}
    cloud.post_json(flavors, body)
    wanted = {"extra_specs": {"trait:HW_CPU_X86_AVX2": "optional"}}
    at = {"OpenStack-API-Version": "compute 2.86"}
    cloud.post_json(f"{flavors}/old/os-extra_specs", wanted, headers=at, status=400)
    cloud.post_json(f"{flavors}/old/os-extra_specs", wanted)
    told = explain(cloud, spec(flavor="old"))
    assert (told["outcome"], told["funnel"]["warnings"]) == ("selected", WARNINGS[:1])
