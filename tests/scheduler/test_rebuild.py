# SPDX-License-Identifier: Apache-2.0
"""Rebuilds (the hint ``_nova_check_type``), which run few filters."""

import pytest

from placement_sched.scheduler import selection
from tests.support.scheduling import make_flavor, make_report, make_spec, make_uuid
from tests.support.versions import LATEST_HEADERS

REBUILD_HINT = {"_nova_check_type": ["rebuild"]}
HYPERV_IMAGE = {"properties": {"hypervisor_type": "hyperv"}}


def report_hosts(app):
    """Report two hosts that run images of QEMU."""
    reports = [
        make_report(name, supported_hv_specs=[["x86_64", "qemu", "hvm"]]) for name in ("cn1", "cn2")
    ]
    app.post_json("/scheduler/v1/compute_nodes", reports)
    return app


@pytest.fixture
def cloud(app):
    return report_hosts(app)


@pytest.fixture(scope="module")
def shared_cloud(make_shared_app):
    return report_hosts(make_shared_app())


def place_instances(app, *numbers, host="cn1"):
    uuids = [make_uuid(number) for number in numbers or (1,)]
    select_host_for_rebuild(app, scheduler_hints={}, force_hosts=[host], instance_uuids=uuids)


def select_host_for_rebuild(app, status=200, **changes):
    request = make_spec(make_uuid(1), **{"scheduler_hints": REBUILD_HINT} | changes)
    body = {"request_spec": request}
    return app.post_json("/scheduler/v1/select_destinations", body, status=status).json


def explain_rebuild(app, **changes):
    request = make_spec(make_uuid(1), **{"scheduler_hints": REBUILD_HINT} | changes)
    return app.post_json("/scheduler/v1/explain", {"request_spec": request}).json


def read_allocations(app):
    return app.get(f"/placement/allocations/{make_uuid(1)}", headers=LATEST_HEADERS).json[
        "allocations"
    ]


@pytest.mark.parametrize(
    "target", [{"force_hosts": ["cn1"]}, {"requested_destination": {"host": "cn1"}}]
)
def test_rebuilt_instance_keeps_its_host_and_allocations(cloud, target):
    select_host_for_rebuild(cloud, scheduler_hints={}, **target)
    before = read_allocations(cloud)
    ((best,),) = select_host_for_rebuild(
        cloud, image={"properties": {"hw_disk_bus": "scsi"}}, **target
    )["selections"]
    assert best["service_host"] == "cn1"
    assert (best["allocation_request"], best["allocation_request_version"]) == (None, None)
    assert read_allocations(cloud) == before != {}


def test_rebuild_of_many_instances_needs_no_capacity(cloud, monkeypatch):
    monkeypatch.setattr(selection, "_MIN_PAIRS", 1)
    place_instances(cloud, 1, 2, 3)
    many = [make_uuid(number) for number in (1, 2, 3)]
    large = {"flavor": make_flavor(vcpus=1000), "force_hosts": ["cn1"]}
    selections = select_host_for_rebuild(cloud, instance_uuids=many, num_instances=3, **large)[
        "selections"
    ]
    assert len(selections) == 3


def test_host_without_support_of_the_image_is_rejected(cloud):
    place_instances(cloud)
    (error,) = select_host_for_rebuild(cloud, status=409, force_hosts=["cn1"], image=HYPERV_IMAGE)[
        "errors"
    ]
    assert "ImagePropertiesFilter rejected the last remaining host" in error["detail"]
    select_host_for_rebuild(cloud, force_hosts=["CN1"], force_nodes=["cn1"])
    assert error["funnel"]["allocation_candidates"]["query"] == ""


def test_rebuild_runs_only_the_image_filter_and_no_candidate_search(cloud):
    place_instances(cloud)
    result = explain_rebuild(
        cloud,
        force_hosts=["cn1"],
        flavor=make_flavor(vcpus=1000, extra_specs={"capabilities:x": "y"}),
        availability_zone="nowhere",
    )
    assert result["funnel"]["request_filters"] == []
    assert result["funnel"]["allocation_candidates"]["steps"] == []
    filters = [stage["name"] for stage in result["funnel"]["filters"]]
    assert filters == ["requested_hosts", "ImagePropertiesFilter"]
    assert [host["host"] for host in result["hosts"]] == ["cn1"]


@pytest.mark.parametrize(
    ("number", "target"),
    [
        (2, {}),
        (2, {"force_hosts": ["cn1"]}),
        (1, {}),
        (1, {"force_hosts": ["cn2"]}),
        (1, {"requested_destination": {"host": "cn2"}}),
        (1, {"force_hosts": ["cn9"]}),
    ],
    ids=str,
)
def test_rebuild_on_another_host_is_400_with_the_path_of_the_hint(shared_cloud, number, target):
    place_instances(shared_cloud)  # the first test places the instance, the others find it
    body = {"request_spec": make_spec(make_uuid(number), scheduler_hints=REBUILD_HINT, **target)}
    for path in ("select_destinations", "explain"):
        (error,) = shared_cloud.post_json(f"/scheduler/v1/{path}", body, status=400).json["errors"]
        assert f"instance {make_uuid(number)} is not on it" in error["detail"]
        assert "(at $.request_spec.scheduler_hints._nova_check_type)" in error["detail"]


@pytest.mark.parametrize("kind", ["live_migrate", "Rebuild"])
def test_check_types_other_than_rebuild_run_the_candidate_search(cloud, kind):
    result = explain_rebuild(cloud, scheduler_hints={"_nova_check_type": [kind]})
    assert result["funnel"]["allocation_candidates"]["query"]
