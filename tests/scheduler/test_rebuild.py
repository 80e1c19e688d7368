# SPDX-License-Identifier: Apache-2.0
"""A rebuild (the hint ``_nova_check_type``) asks the filters for it, and nothing else."""

import pytest

from placement_sched.scheduler import selection
from tests.support.scheduling import flavor, instance, report, spec
from tests.support.versions import LATEST_HEADERS

REBUILD = {"_nova_check_type": ["rebuild"]}
WINDOWS = {"properties": {"hypervisor_type": "hyperv"}}


@pytest.fixture
def cloud(app):
    """Two hosts that run images of QEMU."""
    reports = [
        report(name, supported_hv_specs=[["x86_64", "qemu", "hvm"]]) for name in ("cn1", "cn2")
    ]
    app.post_json("/scheduler/v1/compute_nodes", reports)
    return app


def place(app, *numbers, host="cn1"):
    """Place instances on a host, as new ones are."""
    uuids = [instance(number) for number in numbers or (1,)]
    select(app, scheduler_hints={}, force_hosts=[host], instance_uuids=uuids)


def select(app, status=200, **changes):
    asked = spec(instance(1), **{"scheduler_hints": REBUILD} | changes)
    body = {"request_spec": asked}
    return app.post_json("/scheduler/v1/select_destinations", body, status=status).json


def explain(app, **changes):
    asked = spec(instance(1), **{"scheduler_hints": REBUILD} | changes)
    return app.post_json("/scheduler/v1/explain", {"request_spec": asked}).json


def held(app):
    return app.get(f"/placement/allocations/{instance(1)}", headers=LATEST_HEADERS).json[
        "allocations"
    ]


@pytest.mark.parametrize(
    "there", [{"force_hosts": ["cn1"]}, {"requested_destination": {"host": "cn1"}}]
)
def test_instance_stays_and_keeps_what_it_holds(cloud, there):
    select(cloud, scheduler_hints={}, **there)
    before = held(cloud)
    ((best,),) = select(cloud, image={"properties": {"hw_disk_bus": "scsi"}}, **there)["selections"]
    assert best["service_host"] == "cn1"
    assert (best["allocation_request"], best["allocation_request_version"]) == (None, None)
    assert held(cloud) == before != {}


def test_rebuild_of_many_instances_needs_no_room(cloud, monkeypatch):
    monkeypatch.setattr(selection, "_MIN_PAIRS", 1)
    place(cloud, 1, 2, 3)
    many = [instance(number) for number in (1, 2, 3)]
    large = {"flavor": flavor(vcpus=1000), "force_hosts": ["cn1"]}
    selections = select(cloud, instance_uuids=many, num_instances=3, **large)["selections"]
    assert len(selections) == 3


def test_host_that_cannot_run_the_new_image_is_refused(cloud):
    place(cloud)
    (error,) = select(cloud, status=409, force_hosts=["cn1"], image=WINDOWS)["errors"]
    assert "ImagePropertiesFilter rejected the last remaining host" in error["detail"]
    assert error["funnel"]["allocation_candidates"]["query"] == ""


def test_neither_room_nor_request_filters_nor_other_filters_are_asked(cloud):
    place(cloud)
    told = explain(
        cloud,
        force_hosts=["cn1"],
        flavor=flavor(vcpus=1000, extra_specs={"capabilities:x": "y"}),
        availability_zone="nowhere",
    )
    assert told["funnel"]["request_filters"] == []
    assert told["funnel"]["allocation_candidates"]["steps"] == []
    filters = [one["name"] for one in told["funnel"]["filters"]]
    assert filters == ["requested_hosts", "ImagePropertiesFilter"]
    assert [host["host"] for host in told["hosts"]] == ["cn1"]


@pytest.mark.parametrize("path", ["select_destinations", "explain"])
@pytest.mark.parametrize(
    ("number", "there"),
    [
        (2, {}),
        (2, {"force_hosts": ["cn1"]}),
        (1, {}),
        (1, {"force_hosts": ["cn2"]}),
        (1, {"requested_destination": {"host": "cn2"}}),
        (1, {"force_hosts": ["cn9"]}),
    ],
    ids=[
        "new", "new and forced", "anywhere", "on another host", "to another host", "no such host"
    ],
)  # fmt: skip
def test_hint_is_only_for_an_instance_on_the_host_that_is_named(cloud, path, number, there):
    place(cloud)
    body = {"request_spec": spec(instance(number), scheduler_hints=REBUILD, **there)}
    answer = cloud.post_json(f"/scheduler/v1/{path}", body, status=400)
    (error,) = answer.json["errors"]
    assert f"instance {instance(number)} is not on it" in error["detail"]
    assert "(at $.request_spec.scheduler_hints._nova_check_type)" in error["detail"]


def test_host_is_named_in_any_case(cloud):
    place(cloud)
    select(cloud, force_hosts=["CN1"], force_nodes=["cn1"])


@pytest.mark.parametrize("kind", ["live_migrate", "Rebuild"])
def test_other_check_types_take_the_whole_way(cloud, kind):
    told = explain(cloud, scheduler_hints={"_nova_check_type": [kind]})
    assert told["funnel"]["allocation_candidates"]["query"]
