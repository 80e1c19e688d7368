# SPDX-License-Identifier: Apache-2.0
"""Extra specs that nova logs and ignores."""

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
AMOUNT = "expected a whole number that is not negative"
EXPECTED = {
    "trait:HW_CPU_X86_AVX2": "expected required or forbidden",
    "resources:BOGUS": "expected a standard resource class, or a name that begins with CUSTOM_",
    "resources:VCPU": AMOUNT,
    "resources1:VGPU": AMOUNT,
    "group_policy": "expected none or isolate",
}
WARNINGS = [
    {
        "key": key,
        "source": "flavor",
        "detail": f"ignored: flavor extra spec {key}={ODD[key]}: {expected}",
    }
    for key, expected in EXPECTED.items()
]
STRICT = {"scheduler.strict_extra_specs": True}


@pytest.fixture
def cloud(sqlite_app):
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [report(f"cn{n}") for n in (1, 2)])
    return sqlite_app


def spec_with_ignored_keys(*instances, **fields):
    return spec(*instances, flavor=flavor(extra_specs=ODD, **fields))


def read_funnel(cloud, uuid):
    return cloud.get(f"/scheduler/v1/decisions/{uuid}").json["funnel"]


def test_explanation_decision_and_error_have_the_warnings(cloud):
    answer, plain = explain(cloud, spec_with_ignored_keys()), explain(cloud, spec())
    assert answer["funnel"]["warnings"] == WARNINGS
    assert answer["outcome"] == "selected"
    query = answer["funnel"]["allocation_candidates"]["query"]
    assert query == plain["funnel"]["allocation_candidates"]["query"]
    assert answer["hosts"] == plain["hosts"]
    assert "warnings" not in plain["funnel"]
    answer = select(cloud, spec_with_ignored_keys(instance(1)))
    ((selection,),) = answer["selections"]
    (allocation,) = selection["allocation_request"]["allocations"].values()
    assert allocation["resources"]["VCPU"] == 1
    assert read_funnel(cloud, answer["decision"])["warnings"] == WARNINGS
    (error,) = select(cloud, spec_with_ignored_keys(instance(2), vcpus=999), status=409)["errors"]
    assert error["code"] == "scheduler.no_valid_host"
    assert error["funnel"]["warnings"] == WARNINGS
    assert read_funnel(cloud, error["decision"])["warnings"] == WARNINGS


def test_fallback_query_of_pinned_cpus_has_no_second_warning(cloud):
    extra_specs = {"hw:cpu_policy": "dedicated", "trait:CUSTOM_A": "preferred"}
    answer = explain(cloud, spec(flavor=flavor(extra_specs=extra_specs)))
    assert answer["funnel"]["allocation_candidates"]["fallback"]["query"]
    assert [warning["key"] for warning in answer["funnel"]["warnings"]] == ["trait:CUSTOM_A"]


def test_each_key_and_value_is_logged_once(cloud, caplog):
    with caplog.at_level(logging.WARNING, logger=caches.__name__):
        for number in (1, 2):
            select(cloud, spec_with_ignored_keys(instance(number)))
            explain(cloud, spec_with_ignored_keys())
        explain(cloud, spec(flavor=flavor(extra_specs={"group_policy": "other"})))
    logged = [record.getMessage() for record in caplog.records if record.name == caches.__name__]
    other = "ignored: flavor extra spec group_policy=other: expected none or isolate"
    assert logged == [*(entry["detail"] for entry in WARNINGS), other]


def test_number_of_remembered_warnings_is_limited(caplog, monkeypatch):
    monkeypatch.setattr(caches, "MAX_LOGGED", 3)
    log_once = caches.ProcessCaches().log_once
    items = [
        IgnoredValue(FLAVOR, "group_policy", str(number), "none or isolate") for number in range(4)
    ]
    with caplog.at_level(logging.WARNING):
        for entry in [*items[:3], *items[:3], items[3], items[3], items[0]]:
            log_once(entry.detail)
    values = [record.getMessage().partition("=")[2].partition(":")[0] for record in caplog.records]
    assert values == ["0", "1", "2", "3", "0"]


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("trait:A", "a\nb", "trait:A='a\\nb'"),
        ("trait:A\n", "", "'trait:A\\n'="),
        ("trait:A", "x" * 999, "trait:A=" + "x" * 100 + "..."),
    ],
)
def test_warning_is_one_short_line(key, value, shown):
    detail = IgnoredValue(FLAVOR, key, value, "required or forbidden").detail
    assert detail == f"ignored: flavor extra spec {shown}: expected required or forbidden"


def test_strict_option_makes_the_first_key_an_error(cloud):
    body = {"request_spec": spec_with_ignored_keys(), "overrides": STRICT}
    (error,) = cloud.post_json("/scheduler/v1/explain", body, status=400).json["errors"]
    assert error["detail"] == (
        "flavor extra spec 'trait:HW_CPU_X86_AVX2': expected required or forbidden, got 'optional'"
    )
    assert explain(cloud, spec(), overrides=STRICT)["outcome"] == "selected"


def test_stored_flavor_with_an_ignored_extra_spec_is_placed(cloud):
    flavors = "/compute/v2.1/flavors"
    body = {"flavor": {"name": "old", "ram": 512, "vcpus": 1, "disk": 1, "id": "old"}}
    cloud.post_json(flavors, body)
    request = {"extra_specs": {"trait:HW_CPU_X86_AVX2": "optional"}}
    at = {"OpenStack-API-Version": "compute 2.86"}
    cloud.post_json(f"{flavors}/old/os-extra_specs", request, headers=at, status=400)
    cloud.post_json(f"{flavors}/old/os-extra_specs", request)
    answer = explain(cloud, spec(flavor="old"))
    assert (answer["outcome"], answer["funnel"]["warnings"]) == ("selected", WARNINGS[:1])
