# SPDX-License-Identifier: Apache-2.0
"""Verdicts on single hosts in an explanation."""

import pytest

from placement_sched.scheduler.explain import verdicts as module
from placement_sched.scheduler.filters.image_props_filter import ImagePropertiesFilter
from tests.conftest import make_settings
from tests.scheduler.providers import add_provider
from tests.support.clouds import uuid_of
from tests.support.scheduling import (
    explain_request,
    make_flavor,
    make_report,
    make_spec,
    make_uuid,
    select_hosts,
)
from tests.support.statements import record_statements
from tests.support.versions import LATEST_HEADERS

OLD_REPORT_TIME = "2020-01-01T00:00:00Z"


def report_hosts(app):
    """Report ten hosts with different memory. A host is down, and another has two named nodes."""
    reports = [
        make_report(
            f"cn{n}", memory_mb=16384 * n, **({"last_seen_up": OLD_REPORT_TIME} if n == 5 else {})
        )
        for n in range(1, 11)
    ]
    two = [make_report(f"bm{n}", host="ironic", hypervisor_hostname=f"bm{n}.cloud") for n in (1, 2)]
    app.post_json("/scheduler/v1/compute_nodes", [*reports, *two])
    return app


@pytest.fixture
def writable_cloud(sqlite_app):
    return report_hosts(sqlite_app)


@pytest.fixture(scope="module")
def cloud(make_shared_app):
    """A cloud for tests that change nothing."""
    return report_hosts(make_shared_app())


def list_verdicts(app, *hosts, request=None, **fields):
    return explain_request(app, request or make_spec(), hosts=list(hosts), **fields)["verdicts"]


def list_reasons(verdict) -> list[tuple[str, str, str]]:
    return [(reason["stage"], reason["name"], reason["reason"]) for reason in verdict["reasons"]]


def list_reason_names(verdict) -> list[str]:
    return [reason["name"] for reason in verdict["reasons"]]


def test_verdict_on_a_passed_host_has_its_rank_and_weight(cloud):
    explanation = explain_request(cloud, make_spec())
    assert "verdicts" not in explanation
    assert explain_request(cloud, make_spec(), hosts=[])["verdicts"] == []
    order = [host["node"] for host in explanation["hosts"]]
    rank = order.index("cn7")
    (verdict,) = list_verdicts(cloud, "cn7", "cn7")
    assert verdict == {
        "requested": "cn7",
        "verdict": "passed",
        "host": "cn7",
        "node": "cn7",
        "compute_node_uuid": uuid_of("cn7"),
        "rank": rank + 1,
        "of": len(order),
        "weight": explanation["hosts"][rank]["weight"],
        "reasons": [],
        "would_pass": None,
        "similar_names": [],
        "all_names": [],
    }


def test_verdict_lists_every_reason_of_every_stage(cloud):
    large = make_flavor(memory_mb=200000, vcpus=17)
    (verdict,) = list_verdicts(cloud, "cn5", request=make_spec(flavor=large, ignore_hosts=["CN5"]))
    assert verdict["verdict"] == "rejected"
    stages = [(stage, name) for stage, name, _ in list_reasons(verdict)]
    assert stages == [
        ("allocation_candidates", "resources MEMORY_MB:200000"),
        ("allocation_candidates", "resources VCPU:17"),
        ("filters", "ignore_hosts"),
        ("filters", "ComputeFilter"),
    ]
    assert list_reasons(verdict)[0][2] == "MEMORY_MB: 81920 free of 81920, 200000 requested"
    reason = list_reasons(verdict)[1][2]
    assert reason == "VCPU: at most 16 in one allocation (max_unit), 17 requested"
    assert list_reasons(verdict)[3][2].startswith("no heartbeat for")


@pytest.mark.parametrize(
    ("name", "nodes"),
    [
        ("ironic", ["bm1.cloud", "bm2.cloud"]),
        ("bm2.cloud", ["bm2.cloud"]),
        (uuid_of("bm1"), ["bm1.cloud"]),
        (uuid_of("bm1").replace("-", "").upper(), ["bm1.cloud"]),
    ],
    ids=["host of two nodes", "node", "uuid", "uuid in another spelling"],
)
def test_host_of_a_verdict_may_be_named_by_host_node_or_uuid(cloud, name, nodes):
    explanation = explain_request(cloud, make_spec(), hosts=[name])
    assert [verdict["node"] for verdict in explanation["verdicts"]] == nodes
    assert {verdict["requested"] for verdict in explanation["verdicts"]} == {name}
    assert sorted(host["node"] for host in explanation["hosts"]) == nodes


def test_host_named_by_a_child_provider_has_a_verdict_with_all_reasons(writable_cloud):
    add_provider(writable_cloud, "cn3_gpu", parent=uuid_of("cn3"))
    (verdict,) = list_verdicts(writable_cloud, "cn3_gpu")
    assert (verdict["verdict"], verdict["node"]) == ("passed", "cn3")
    request = make_spec(flavor=make_flavor(memory_mb=60000, vcpus=17))
    names = list_reason_names(list_verdicts(writable_cloud, "cn3", request=request)[0])
    assert names == ["resources MEMORY_MB:60000", "resources VCPU:17"]


def test_verdict_on_an_unknown_host_suggests_similar_names(cloud):
    first, second, third = list_verdicts(cloud, "cm7", "cn2", "mars")
    assert [verdict["verdict"] for verdict in (first, second, third)] == [
        "unknown", "passed", "unknown",
    ]  # fmt: skip
    assert first["similar_names"][0] == "cn7"
    assert (first["host"], first["rank"], first["reasons"]) == (None, None, [])
    assert third["similar_names"] == []
    assert first["all_names"] == third["all_names"] == []  # they are too many


def test_similar_names_are_suggested_for_at_most_ten_unknown_hosts(cloud, monkeypatch):
    compared = []
    nearest = module.find_nearest

    def record_compared_name(name, names, most):
        compared.append(name)
        return nearest(name, names, most)

    monkeypatch.setattr(module, "find_nearest", record_compared_name)
    names = [f"cn7{number}" for number in range(100, 600)]
    result = list_verdicts(cloud, *names)
    assert compared == names[:10]
    assert [entry["verdict"] for entry in result] == ["unknown"] * 500
    assert "cn7" in result[9]["similar_names"]
    assert result[10]["similar_names"] == []


def test_verdict_on_an_unknown_host_lists_the_hosts_of_a_small_cloud(sqlite_app):
    hosts = [make_report("compute-01"), make_report("ironic")]
    sqlite_app.post_json("/scheduler/v1/compute_nodes", hosts)
    response = explain_request(sqlite_app, make_spec(), hosts=["mars", "irony"])["verdicts"]
    named = [(entry["similar_names"], entry["all_names"]) for entry in response]
    assert named == [([], ["compute-01", "ironic"]), (["ironic"], [])]


@pytest.mark.parametrize("child", [False, True], ids=["no child provider", "child provider"])
def test_verdict_on_a_host_beyond_the_candidate_limit_names_the_limit_before_filters(
    writable_cloud, child
):
    if child:
        add_provider(writable_cloud, "pci", parent=uuid_of("cn1"))
    overrides = {"scheduler.max_placement_results": 2}
    response = explain_request(
        writable_cloud, make_spec(), overrides=overrides, hosts=["cn5", "cn9"]
    )
    silent, cut = response["verdicts"]
    ((stage, name, reason),) = list_reasons(cut)
    assert (stage, name) == ("allocation_candidates", "limit 2")
    assert "[scheduler] max_placement_results (set in overrides)" in reason
    assert [entry["name"] for entry in silent["reasons"]] == ["limit 2", "ComputeFilter"]


def test_verdict_has_the_reason_that_a_random_limit_omitted_the_host(cloud):
    overrides = {
        "scheduler.max_placement_results": 1,
        "placement.randomize_allocation_candidates": True,
    }
    names = [f"cn{n}" for n in (1, 2, 3)]
    response = explain_request(cloud, make_spec(), overrides=overrides, hosts=names)["verdicts"]
    words = {reason["reason"] for verdict in response for reason in verdict["reasons"]}
    assert any("drawn at random" in word for word in words)


def test_verdict_on_a_disabled_host_has_the_reason_of_the_operator(writable_cloud):
    headers = {"OpenStack-API-Version": "compute 2.53"}
    path = "/compute/v2.1/os-services"
    (service,) = writable_cloud.get(f"{path}?host=cn4", headers=headers).json["services"]
    body = {"status": "disabled", "disabled_reason": "broken fan"}
    writable_cloud.put_json(f"{path}/{service['id']}", body, headers=headers)
    (verdict,) = list_verdicts(writable_cloud, "cn4")
    result = list_reasons(verdict)
    assert result[0][1] == "root_required !COMPUTE_STATUS_DISABLED"
    assert "broken fan" in result[0][2]
    assert result[1][1] == "ComputeFilter"


def test_filter_that_fails_for_a_host_alone_is_named_after_the_reasons_of_the_run(
    sqlite_app, monkeypatch
):
    def raise_runtime_error(*_arguments):
        raise RuntimeError("no image")

    monkeypatch.setattr(ImagePropertiesFilter, "prepare", raise_runtime_error)
    host = make_report("cn1", last_seen_up=OLD_REPORT_TIME)
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [host])
    (verdict,) = list_verdicts(sqlite_app, "cn1")
    reached, failed = list_reasons(verdict)
    assert reached[1] == "ComputeFilter"
    path = f"{ImagePropertiesFilter.__module__}.ImagePropertiesFilter"
    reason = f"later filters were not evaluated: {path} failed: RuntimeError: no image"
    assert failed == ("filters", "", reason)
    assert verdict["reasons"][-1]["kind"] == "not_evaluated"


def test_provider_without_a_host_report_is_rejected_as_no_compute_node(cloud_without_compute_nodes):
    (verdict,) = list_verdicts(
        cloud_without_compute_nodes, "cmp2.cloud", request=make_spec(flavor=make_flavor(vcpus=9))
    )
    assert (verdict["host"], verdict["compute_node_uuid"]) == ("cmp2.cloud", None)
    stages = [(reason["stage"], reason["name"]) for reason in verdict["reasons"]]
    assert stages == [("allocation_candidates", "resources VCPU:9"), ("filters", "compute_nodes")]


def test_rejection_by_a_request_filter_is_the_first_reason(cloud):
    request = make_spec(availability_zone="mars", flavor=make_flavor(vcpus=17))
    (verdict,) = list_verdicts(cloud, "cn5", request=request)
    assert [(entry["stage"], entry["name"]) for entry in verdict["reasons"]] == [
        ("request_filters", "map_az_to_placement_aggregate"),
        ("allocation_candidates", "resources VCPU:17"),
        ("filters", "ComputeFilter"),
    ]
    (fit,) = list_verdicts(cloud, "cn9", request=make_spec(availability_zone="mars"))
    assert [reason["stage"] for reason in fit["reasons"]] == ["request_filters"]


def test_verdicts_for_rebuild_and_forced_hosts_omit_the_skipped_filters(writable_cloud):
    image = {"properties": {"hw_architecture": "aarch64"}}
    ordinary = make_spec(image=image)
    names = list_reason_names(list_verdicts(writable_cloud, "cn5", request=ordinary)[0])
    assert names == ["ComputeFilter", "ImagePropertiesFilter"]
    writable_cloud.put_json(
        f"/scheduler/v1/instances/{make_uuid(1)}", {"host": "cn6", "node": "cn6"}
    )
    hints = {"_nova_check_type": ["rebuild"]}
    rebuild = make_spec(make_uuid(1), image=image, scheduler_hints=hints, force_hosts=["cn6"])
    (verdict,) = list_verdicts(writable_cloud, "cn5", request=rebuild)
    assert list_reason_names(verdict) == ["requested_hosts", "ImagePropertiesFilter"]
    (verdict,) = list_verdicts(writable_cloud, "cn5", request=make_spec(force_hosts=["cn6"]))
    assert list_reason_names(verdict) == [f"in_tree {uuid_of('cn6')}", "requested_hosts"]


def test_statements_for_verdicts_do_not_depend_on_the_number_of_hosts(cloud):
    def count_statements(number):
        names = [f"cn{n}" for n in range(1, number + 1)]
        with record_statements(cloud.app.services.database) as statements:
            explain_request(cloud, make_spec(flavor=make_flavor(memory_mb=150000)), hosts=names)
        return len(statements)

    count_statements(9)
    assert count_statements(2) == count_statements(9)


def test_each_node_of_a_host_has_a_verdict_of_its_own(writable_cloud):
    node = make_report("bm1", host="ironic", hypervisor_hostname="bm1.cloud", memory_mb=4096)
    writable_cloud.post_json("/scheduler/v1/compute_nodes", [node])
    small, large = list_verdicts(
        writable_cloud, "ironic", request=make_spec(flavor=make_flavor(memory_mb=8192))
    )
    assert (small["host"], small["node"], small["rank"]) == ("ironic", "bm1.cloud", None)
    assert list_reason_names(small) == ["resources MEMORY_MB:8192"]
    assert (large["node"], large["verdict"]) == ("bm2.cloud", "passed")


def _remove_elapsed_times(result):
    for stage in result["funnel"]["request_filters"]:
        del stage["elapsed_ms"]
    return result


@pytest.mark.provider_cache
@pytest.mark.slow
@pytest.mark.all_databases
@pytest.mark.parametrize(
    "request_spec",
    [
        make_spec(),
        make_spec(flavor=make_flavor(memory_mb=200000, vcpus=17)),
        make_spec(flavor=make_flavor(extra_specs={"trait:CUSTOM_LICENSED": "required"})),
        make_spec(image={"properties": {"hw_architecture": "s390x"}}),
        make_spec(availability_zone="mars"),
    ],
    ids=["selected host", "rejected amounts", "missing trait", "filter", "unknown zone"],
)
def test_explanation_is_the_same_with_the_provider_cache(database_url, make_app, request_spec):
    plain = make_app(make_settings(database_url, placement__providers_in_memory=False))
    cached = make_app(make_settings(database_url))
    plain.post_json(
        "/scheduler/v1/compute_nodes",
        [make_report(f"cn{n}", memory_mb=16384 * n) for n in range(1, 5)],
    )
    plain.put("/placement/traits/CUSTOM_LICENSED", headers=LATEST_HEADERS)
    select_hosts(plain, make_spec(flavor=make_flavor(memory_mb=5000), force_hosts=["cn4"]))
    for more in ({}, {"hosts": ["cn1", "cn4"]}):
        responses = [
            _remove_elapsed_times(explain_request(app, request_spec, **more))
            for app in (plain, cached)
        ]
        assert responses[0] == responses[1]
    cache = cached.app.services.scheduler.caches.provider_cache
    assert cache.figures.full_readings == 1


@pytest.fixture
def oversized_request_spec(monkeypatch):
    """A request whose size limits full explanations to two of the rejected hosts."""
    monkeypatch.setattr(module, "MIN_HOSTS_WITH_ALL_REASONS", 2)
    monkeypatch.setattr(module, "_BUDGET", 1000)
    specs = {f"capabilities:cpu_info:x{n}": "y" for n in range(100)}
    return make_spec(flavor=make_flavor(memory_mb=200000, vcpus=17, extra_specs=specs))


def test_only_the_first_rejected_hosts_of_a_large_request_have_all_reasons(
    cloud, oversized_request_spec
):
    first, second, third = list_verdicts(cloud, "cn6", "cn8", "cn7", request=oversized_request_spec)
    assert [first, second] == list_verdicts(cloud, "cn6", "cn8", request=oversized_request_spec)
    assert len(first["reasons"]) == 3
    stored, text = list_reasons(third)
    assert stored == list_reasons(list_verdicts(cloud, "cn7", request=oversized_request_spec)[0])[0]
    assert text[:2] == ("filters", "")
    assert text[2].startswith("only the first reason is shown, without suggested changes: ")
    assert "at most 2 rejected hosts" in text[2]
    assert [reason["changes"] for reason in third["reasons"]] == [[], []]
    assert third["would_pass"] is None


def test_each_spelling_of_a_host_counts_towards_the_limit_of_full_verdicts(
    cloud, oversized_request_spec
):
    names = ["cn7", uuid_of("cn7"), uuid_of("cn7").upper(), uuid_of("cn7").replace("-", "")]
    result = list_verdicts(cloud, *names, request=oversized_request_spec)
    assert [len(item["reasons"]) for item in result] == [3, 3, 2, 2]
    assert [entry["requested"] for entry in result] == names


def test_first_rejection_reason_does_not_depend_on_max_rejected(cloud, oversized_request_spec):
    names = [f"cn{n}" for n in range(1, 11)]
    few = list_verdicts(cloud, *names, request=oversized_request_spec, max_rejected=1)
    assert few == list_verdicts(cloud, *names, request=oversized_request_spec, max_rejected=0)
    assert {list_reasons(entry)[0][1] for entry in few} == {"resources MEMORY_MB:200000"}


def test_first_rejection_reason_is_the_stage_that_rejected_the_host(cloud, oversized_request_spec):
    ignoring = make_spec(
        flavor=oversized_request_spec["flavor"] | {"memory_mb": 1, "vcpus": 1}, ignore_hosts=["cn7"]
    )
    result = list_verdicts(cloud, "cn1", "cn2", "cn7", "cn5", request=ignoring)
    assert [list_reasons(entry)[0][1] for entry in result[2:]] == ["ignore_hosts", "ComputeFilter"]


def test_verdict_on_a_host_beyond_the_limit_says_that_it_was_not_evaluated(
    cloud, oversized_request_spec
):
    item = {"scheduler.max_placement_results": 1}
    request = make_spec(flavor=make_flavor(), ignore_hosts=["q"] * 2000)
    result = list_verdicts(
        cloud, *(f"cn{n}" for n in range(1, 11)), request=request, overrides=item
    )
    ((stage, name, why),) = list_reasons(
        [entry for entry in result if entry["verdict"] == "rejected"][-1]
    )
    assert (stage, name) == ("filters", "")
    assert why.startswith("the reason was not evaluated")
    ((note,),) = [entry["reasons"] for entry in result if entry["verdict"] == "rejected"][-1:]
    assert (note["kind"], note["reasons"]) == ("not_evaluated", 0)


def test_rank_in_a_verdict_is_the_rank_for_the_first_instance(cloud):
    request = make_spec(instance_uuids=None, num_instances=5, flavor=make_flavor(memory_mb=16384))
    plain, explanation = (
        explain_request(cloud, request),
        explain_request(cloud, request, hosts=["cn10"]),
    )
    assert explanation["verdicts"][0]["rank"] == 1
    assert explanation["outcome"] == plain["outcome"]
    assert len(explanation["selections"]) == len(plain["selections"])
