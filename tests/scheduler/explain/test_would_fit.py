# SPDX-License-Identifier: Apache-2.0
"""Minimal changes that would make a request fit, compared with real runs."""

import logging
import re

import pytest

from tests.conftest import make_settings
from tests.scheduler.explanations import put_aggregate
from tests.scheduler.fleets import load_fleet
from tests.scheduler.providers import add_provider
from tests.support.clouds import uuid_of
from tests.support.scheduling import (
    explain_request,
    make_flavor,
    make_report,
    make_spec,
    select_hosts,
)
from tests.support.versions import LATEST_HEADERS

pytestmark = pytest.mark.slow

#: The sentence about a single host that is down.
DOWN_HOST_SENTENCE_PATTERN = r"cn4 would fit, but its nova-compute last reported \d+ years ago"
OLD_REPORT_TIME = "2020-01-01T00:00:00Z"
LICENSED_TRAIT = "CUSTOM_LICENSED_WINDOWS"
AGGREGATE_ISOLATION_OVERRIDE = {"scheduler.enable_isolated_aggregate_filtering": True}


def list_would_fit_entries(app, request, **more):
    return explain_request(app, request, **more)["funnel"].get("would_fit", [])


def list_passing_hosts(app, request, **more):
    return sorted(host["host"] for host in explain_request(app, request, **more)["hosts"])


def report_hosts(app):
    """Report six hosts with 16 to 48 GB. cn4 is down, cn5 and cn6 are in agg1."""
    sizes = {"cn1": 16384, "cn2": 32768, "cn3": 32768, "cn4": 49152, "cn5": 49152, "cn6": 49152}
    reports = [
        make_report(
            name, memory_mb=size, **({"last_seen_up": OLD_REPORT_TIME} if name == "cn4" else {})
        )
        for name, size in sizes.items()
    ]
    app.post_json("/scheduler/v1/compute_nodes", reports)
    app.put(f"/placement/traits/{LICENSED_TRAIT}", headers=LATEST_HEADERS)
    put_aggregate(app, 1, {f"trait:{LICENSED_TRAIT}": "required"}, "cn5", "cn6")
    return app


@pytest.fixture
def writable_cloud(sqlite_app):
    return report_hosts(sqlite_app)


@pytest.fixture(scope="module")
def cloud(make_shared_app):
    """A cloud for tests that change nothing."""
    return report_hosts(make_shared_app())


def test_suggested_amount_is_the_largest_that_fits_on_a_host(cloud):
    (entry,) = list_would_fit_entries(
        cloud, make_spec(flavor=make_flavor(memory_mb=65536), ignore_hosts=["cn5", "cn6"])
    )
    assert entry["words"] == "2 hosts would fit with MEMORY_MB:32768 instead of 65536"
    assert (entry["hosts"], entry["exact"], entry["examples"]) == (2, True, ["cn2", "cn3"])
    assert entry["change"]["amount"] == 32768


def test_suggested_amount_is_a_multiple_of_the_step_size(app):
    app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1"), make_report("cn2")])
    for name, total, step in (("cn1", 15500, 1000), ("cn2", 14999, 1)):
        provider = f"/placement/resource_providers/{uuid_of(name)}"
        generation = app.get(provider, headers=LATEST_HEADERS).json["generation"]
        body = {"resource_provider_generation": generation, "total": total, "step_size": step}
        app.put_json(f"{provider}/inventories/MEMORY_MB", body, headers=LATEST_HEADERS)
    select_hosts(app, make_spec(force_hosts=["cn1"], flavor=make_flavor(memory_mb=1000)))
    (entry,) = list_would_fit_entries(app, make_spec(flavor=make_flavor(memory_mb=20000)))
    assert entry["words"] == "cn2 would fit with MEMORY_MB:14999 instead of 20000"
    (entry,) = list_would_fit_entries(
        app, make_spec(flavor=make_flavor(memory_mb=20000), force_hosts=["cn1"])
    )
    assert entry["words"] == "cn1 would fit with MEMORY_MB:14000 instead of 20000"


def test_would_fit_sentence_names_the_trait_of_a_reserved_aggregate(cloud):
    request = make_spec(flavor=make_flavor(memory_mb=40000))
    result = [
        entry["words"]
        for entry in list_would_fit_entries(cloud, request, overrides=AGGREGATE_ISOLATION_OVERRIDE)
    ]
    reserved, amount, silent = result
    assert amount == "2 hosts would fit with MEMORY_MB:32768 instead of 40000"
    assert reserved == f"2 hosts fit but are in agg1, which needs trait {LICENSED_TRAIT}"
    assert re.fullmatch(DOWN_HOST_SENTENCE_PATTERN, silent)
    assert list_passing_hosts(cloud, request) == ["cn5", "cn6"]


def test_would_fit_sentence_about_a_single_host_has_the_reason(writable_cloud):
    request = make_spec(flavor=make_flavor(memory_mb=40000), ignore_hosts=["cn5", "cn6"])
    words = [entry["words"] for entry in list_would_fit_entries(writable_cloud, request)]
    assert any(re.fullmatch(DOWN_HOST_SENTENCE_PATTERN, word) for word in words)
    silent = next(
        item
        for item in list_would_fit_entries(writable_cloud, request)
        if item["words"].startswith("cn4")
    )
    assert silent["change"]["action"] == "report_in"
    writable_cloud.post_json("/scheduler/v1/compute_nodes", [make_report("cn4", memory_mb=49152)])
    assert list_passing_hosts(writable_cloud, request) == ["cn4"]


def test_selection_and_successful_explanation_have_no_would_fit_entries(cloud):
    assert "would_fit" not in explain_request(cloud, make_spec())["funnel"]
    result = select_hosts(cloud, make_spec(flavor=make_flavor(memory_mb=65536)), status=409)
    assert "would_fit" not in result["errors"][0]["funnel"]


def test_suggested_amount_in_a_provider_tree_fits_on_a_single_provider(writable_cloud):
    add_provider(writable_cloud, "pci", parent=uuid_of("cn1"))
    (entry,) = list_would_fit_entries(
        writable_cloud, make_spec(flavor=make_flavor(memory_mb=65536), ignore_hosts=["cn5", "cn6"])
    )
    assert entry["words"] == "2 hosts would fit with MEMORY_MB:32768 instead of 65536"


def test_would_fit_does_not_count_hosts_that_filters_reject(cloud):
    funnel = explain_request(cloud, make_spec(flavor=make_flavor(vcpus=17)))["funnel"]
    assert funnel["obstacle"]["reason"] == "6 hosts meet all constraints but resources VCPU:17"
    words = [entry["words"] for entry in funnel["would_fit"]]
    assert words == ["5 hosts would fit with VCPU:16 instead of 17"]


def test_explanation_of_single_hosts_has_no_would_fit_entries(cloud):
    request = make_spec(flavor=make_flavor(memory_mb=65536))
    all_hosts, single = (
        explain_request(cloud, request),
        explain_request(cloud, request, hosts=["cn1"]),
    )
    assert all_hosts["funnel"]["would_fit"]
    assert "would_fit" not in single["funnel"]
    assert single["funnel"]["obstacle"] == all_hosts["funnel"]["obstacle"]
    counts = [
        [
            (step["before"], step["after"])
            for step in entry["funnel"]["allocation_candidates"]["steps"]
        ]
        for entry in (single, all_hosts)
    ]
    assert counts[0] == counts[1]


@pytest.mark.parametrize(
    ("request_spec", "words"),
    [
        ({"memory_mb": 65536}, "2 hosts would fit with MEMORY_MB:32768 instead of 65536"),
        ({"vcpus": 17}, "3 hosts would fit with VCPU:16 instead of 17"),
        ({"root_gb": 5000}, "3 hosts would fit with DISK_GB:1000 instead of 5000"),
        (
            {"root_gb": 4000, "ephemeral_gb": 900, "swap": 102400},
            "3 hosts would fit with DISK_GB:1000 instead of 5000",
        ),
    ],
    ids=["RamFilter", "CoreFilter", "DiskFilter", "DiskFilter and all disks"],
)
def test_suggested_amount_passes_ram_core_and_disk_filter(cloud, request_spec, words):
    filters = ["ComputeFilter", "RamFilter", "CoreFilter", "DiskFilter"]
    overrides = {"filter_scheduler.enabled_filters": filters}
    request = make_spec(flavor=make_flavor(**request_spec), ignore_hosts=["cn5", "cn6"])
    (entry,) = list_would_fit_entries(cloud, request, overrides=overrides)
    assert entry["words"] == words
    name, change = entry["change"]["resource_class"], entry["change"]
    size_name = {"MEMORY_MB": "memory_mb", "VCPU": "vcpus", "DISK_GB": "root_gb"}[name]
    for more, hosts in ((0, entry["hosts"]), (1, 0)):
        amount = change["amount"] + more
        if name == "DISK_GB":
            changed = {**request_spec, "root_gb": amount, "ephemeral_gb": 0, "swap": 0}
        else:
            changed = {**request_spec, size_name: amount}
        assert (
            len(list_passing_hosts(cloud, {**request, "flavor": make_flavor(**changed)})) == hosts
        )


@pytest.mark.parametrize(("options", "words"), [({}, None), ({"hosts": ["cn1"]}, "not evaluated")])
def test_filter_failure_is_no_error_if_no_hosts_remain(
    make_app, sqlite_url, caplog, options, words
):
    app = make_app(make_settings(sqlite_url, filter_scheduler__enabled_filters=["JsonFilter"]))
    app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1")])
    wrong = make_spec(ignore_hosts=["cn1"], scheduler_hints={"query": '["<", "$host", 5]'})
    caplog.set_level(logging.DEBUG)
    response = explain_request(app, wrong, **options)
    assert words is None or words in str(response)
    ours = [record for record in caplog.records if "JsonFilter failed" in record.getMessage()]
    assert {our.levelname for our in ours} == {"DEBUG"}


#: Each GPU gives a candidate. The limit is reached before the last host.
GPUS_PER_HOST = 8
CANDIDATE_LIMIT_OVERRIDE = {"scheduler.max_placement_results": GPUS_PER_HOST}
BREADTH_FIRST_OVERRIDE = {"placement.allocation_candidates_generation_strategy": "breadth-first"}
GPU_FLAVOR = make_flavor(extra_specs={"resources1:VGPU": "1"})


@pytest.fixture
def gpu_cloud(sqlite_app):
    """Three hosts with eight GPUs. The first host is down."""
    for name, seen in (("cn1", "2020-01-01T00:00:00Z"), ("cn2", None), ("cn3", None)):
        more = {"last_seen_up": seen} if seen else {}
        sqlite_app.post_json("/scheduler/v1/compute_nodes", [make_report(name, **more)])
        for number in range(GPUS_PER_HOST):
            add_provider(sqlite_app, f"{name} gpu {number}", parent=uuid_of(name), VGPU=1)
    return sqlite_app


def test_obstacle_names_the_candidate_limit_and_the_breadth_first_strategy(gpu_cloud):
    explanation = explain_request(
        gpu_cloud, make_spec(flavor=GPU_FLAVOR), overrides=CANDIDATE_LIMIT_OVERRIDE
    )
    obstacle = explanation["funnel"]["obstacle"]
    assert obstacle["name"] == "ComputeFilter"
    words = "ComputeFilter rejected the last remaining host. The limit of candidates ([scheduler]"
    assert obstacle["reason"].startswith(words)
    assert "had already excluded 2 hosts" in obstacle["reason"]
    assert "breadth-first" in obstacle["reason"]
    explanation = explain_request(
        gpu_cloud,
        make_spec(flavor=GPU_FLAVOR),
        overrides={**CANDIDATE_LIMIT_OVERRIDE, **BREADTH_FIRST_OVERRIDE},
    )
    assert explanation["outcome"] == "selected"


LAST_SEEN_UP_YAML = 'last_seen_up: "2099-01-01T00:00:00Z"'
HOST_SIZE = f"vcpus: 4, memory_mb: 8192, {LAST_SEEN_UP_YAML}"
DISK_AGGREGATE = "00000000-0000-4000-8000-000000000001"
ZONE_AGGREGATE = "00000000-0000-4000-8000-0000000000a1"
LICENSED_AGGREGATE = "00000000-0000-4000-8000-0000000000a2"
#: cn1 is in az1. Its pool of disk is in no zone.
SHARED_DISK_FLEET_YAML = f"""
hosts:
- {{host: cn1, {HOST_SIZE}, local_gb: 0, provider_aggregates: [{DISK_AGGREGATE}, {ZONE_AGGREGATE}]}}
- {{host: cn2, {HOST_SIZE}, local_gb: 0, provider_aggregates: [{DISK_AGGREGATE}]}}
providers:
- name: pool
  inventories: {{DISK_GB: {{total: 100}}}}
  traits: [MISC_SHARES_VIA_AGGREGATE]
  aggregates: [{DISK_AGGREGATE}]
aggregates:
- {{name: az1, uuid: {ZONE_AGGREGATE}, availability_zone: az1, hosts: cn1}}
"""
LICENSED_HOST_FLEET_YAML = f"""
traits: [CUSTOM_WIN]
hosts:
- {{host: cn1, {HOST_SIZE}, local_gb: 100}}
aggregates:
- {{name: lic, uuid: {LICENSED_AGGREGATE}, metadata: {{"trait:CUSTOM_WIN": required}}, hosts: cn1}}
"""
FORBIDDEN_AGGREGATES_OVERRIDE = {"scheduler.enable_forbidden_aggregates_filter": True}


def build_small_flavor(disk=1, **extra_specs):
    return make_flavor(vcpus=1, memory_mb=512, root_gb=disk, extra_specs=extra_specs)


def load_fleet_and_get_verdict(app, fleet, request, **more):
    load_fleet(app, fleet)
    return explain_request(app, request, hosts=["cn1"], **more)["verdicts"][0]


def join_reasons(verdict):
    return "; ".join(reason["reason"] for reason in verdict["reasons"])


def join_suggested_changes(verdict):
    changes = [change for reason in verdict["reasons"] for change in reason.get("changes", ())]
    return "; ".join(change["words"] for change in changes)


def test_rejection_reason_names_the_shared_pool_outside_the_zone(sqlite_app):
    request = make_spec(flavor=build_small_flavor(10), availability_zone="az1")
    verdict = load_fleet_and_get_verdict(sqlite_app, SHARED_DISK_FLEET_YAML, request)
    assert "pool" in join_reasons(verdict)
    assert "each of" not in join_reasons(verdict)
    assert "add it to aggregate az1" not in join_suggested_changes(verdict)


def test_would_fit_suggestion_is_evaluated_with_the_request_filters(sqlite_app):
    load_fleet(sqlite_app, LICENSED_HOST_FLEET_YAML)
    request = make_spec(flavor=build_small_flavor(**{"trait:CUSTOM_WIN": "required"}))
    explanation = explain_request(sqlite_app, request, overrides=FORBIDDEN_AGGREGATES_OVERRIDE)
    words = [entry["words"] for entry in explanation["funnel"].get("would_fit", ())]
    assert "cn1 would fit without trait CUSTOM_WIN" not in words


def test_sharing_providers_are_not_counted_as_hosts(sqlite_app):
    load_fleet(sqlite_app, SHARED_DISK_FLEET_YAML)
    steps = explain_request(sqlite_app, make_spec(flavor=build_small_flavor(10)))["funnel"][
        "allocation_candidates"
    ]["steps"]
    assert steps[0]["before"] == 2
    explanation = explain_request(
        sqlite_app, make_spec(flavor=build_small_flavor(10), force_hosts=["cn2"])
    )
    steps = explanation["funnel"]["allocation_candidates"]["steps"]
    (step,) = [step for step in steps if step["constraint"] == "in_tree"]
    reasons = [rejection["reason"] for rejection in step["rejected"]]
    assert reasons == ["not in the tree of cn2", "pool: not in the tree of cn2"]
