"""A rebuild (the hint ``_nova_check_type``) asks the filters for it, and nothing else."""

import pytest

from placement_sched.scheduler import choose
from tests.placing import flavor, instance, report, spec
from tests.versions import LATEST_HEADERS

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
    monkeypatch.setattr(choose, "_MANY", 1)
    many = [instance(number) for number in (1, 2, 3)]
    selections = select(cloud, instance_uuids=many, num_instances=3)["selections"]
    assert len(selections) == 3


def test_host_that_cannot_run_the_new_image_is_refused(cloud):
    (error,) = select(cloud, status=409, force_hosts=["cn1"], image=WINDOWS)["errors"]
    assert "ImagePropertiesFilter rejected the last remaining host" in error["detail"]
    assert error["funnel"]["allocation_candidates"]["query"] == ""


def test_neither_room_nor_request_filters_nor_other_filters_are_asked(cloud):
    told = explain(
        cloud,
        flavor=flavor(vcpus=1000, extra_specs={"capabilities:x": "y"}),
        availability_zone="nowhere",
    )
    assert told["funnel"]["request_filters"] == []
    assert told["funnel"]["allocation_candidates"]["steps"] == []
    assert [one["name"] for one in told["funnel"]["filters"]] == ["ImagePropertiesFilter"]
    assert [host["host"] for host in told["hosts"]] == ["cn1", "cn2"]


def test_host_that_is_not_there_is_told(cloud):
    (error,) = select(cloud, status=409, force_hosts=["cn9"])["errors"]
    assert "there is no such host" in error["detail"]


@pytest.mark.parametrize("kind", ["live_migrate", "Rebuild"])
def test_other_check_types_take_the_whole_way(cloud, kind):
    told = explain(cloud, scheduler_hints={"_nova_check_type": [kind]})
    assert told["funnel"]["allocation_candidates"]["query"]
