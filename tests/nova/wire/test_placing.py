# SPDX-License-Identifier: Apache-2.0
"""Requests in nova's format are placed by the scheduler."""

import json

import jsonschema
import pytest

from placement_sched.errors import NoValidHost
from placement_sched.nova.objects import build_primitive
from placement_sched.nova.request_spec import build_document
from placement_sched.nova.rpc import build_primitives
from placement_sched.schemas.request_spec import REQUEST_SPEC
from tests.conftest import make_settings
from tests.nova.wire.recorded import read_recorded_object
from tests.support.scheduling import make_report, make_uuid

SERVER_GROUP_UUID = "99999999-0000-4000-8000-000000000001"
PCI_REQUEST_UUID = "99999999-0000-4000-8000-000000000002"
PCI_ALIAS = json.dumps({"name": "nic", "vendor_id": "8086", "product_id": "1520"})


def build_request(**fields):
    flavor = {
        "id": 1,
        "flavorid": "1",
        "name": "m1.tiny",
        "vcpus": 1,
        "memory_mb": 512,
        "root_gb": 1,
        "ephemeral_gb": 0,
        "swap": 0,
        "extra_specs": {},
    }
    nulls = ("image", "instance_group", "requested_destination", "retry", "ignore_hosts")
    data = {
        **dict.fromkeys((*nulls, "force_hosts", "force_nodes", "scheduler_hints", "limits")),
        "project_id": "p",
        "user_id": "u",
        "num_instances": 1,
        "flavor": build_primitive("Flavor", flavor),
        "numa_topology": None,
        "pci_requests": build_primitive("InstancePCIRequests", {"requests": []}),
        "requested_resources": [],
        **fields,
    }
    return build_primitive("RequestSpec", data)


def test_request_of_nova_matches_the_http_api_schema():
    whole = build_document(read_recorded_object("spec"), [make_uuid(1)])
    assert {"instance_group", "security_groups", "requested_networks", "limits"} <= whole.keys()
    jsonschema.validate(whole, REQUEST_SPEC)


@pytest.fixture
def scheduler(sqlite_url, make_app):
    settings = make_settings(
        sqlite_url,
        filter_scheduler__enabled_filters=["ServerGroupAntiAffinityFilter"],
        filter_scheduler__pci_in_placement=True,
        pci__alias=[PCI_ALIAS],
    )
    app = make_app(settings)
    app.post_json(
        "/scheduler/v1/compute_nodes", [make_report(f"cn{number}") for number in (1, 2, 3)]
    )
    return app.app.services.scheduler


def select_hosts(scheduler, number, **fields):
    document = build_document(build_request(**fields), [make_uuid(number)])
    result = scheduler.select_destinations(document, alternates=True)
    (selections,) = build_primitives(result.selections)
    return [selection["nova_object.data"]["service_host"] for selection in selections]


def test_request_of_nova_is_placed_with_alternates(scheduler):
    assert select_hosts(scheduler, 1) == ["cn1", "cn2", "cn3"]


def test_repeated_request_gets_the_same_result(scheduler):
    assert select_hosts(scheduler, 1) == select_hosts(scheduler, 1)


def test_hosts_of_an_anti_affinity_group_sent_by_nova_are_excluded(scheduler):
    group = {
        "uuid": SERVER_GROUP_UUID,
        "policy": "anti-affinity",
        "_rules": {},
        "members": [make_uuid(9)],
    }
    for number, held, free in ((1, ["cn1"], ["cn2", "cn3"]), (2, ["cn1", "cn2"], ["cn3"])):
        primitive = build_primitive("InstanceGroup", {**group, "hosts": held})
        assert select_hosts(scheduler, number, instance_group=primitive) == free
    full = build_primitive("InstanceGroup", {**group, "hosts": ["cn1", "cn2", "cn3"]})
    with pytest.raises(NoValidHost):
        select_hosts(scheduler, 3, instance_group=full)


def test_hint_of_a_deleted_group_has_no_effect(scheduler):
    assert select_hosts(scheduler, 1, scheduler_hints={"group": [SERVER_GROUP_UUID]})[0] == "cn1"


def test_request_groups_for_devices_are_not_duplicated(scheduler):
    device = {"vendor_id": "8086", "product_id": "1520"}
    request = build_primitive(
        "InstancePCIRequest",
        {"count": 2, "spec": [device], "alias_name": "nic", "request_id": PCI_REQUEST_UUID},
    )
    made = {"resources": {"CUSTOM_PCI_8086_1520": 1}, "use_same_provider": True}
    groups = [
        build_primitive("RequestGroup", {**made, "requester_id": f"{PCI_REQUEST_UUID}-{number}"})
        for number in range(2)
    ]
    requests = build_primitive("InstancePCIRequests", {"requests": [request]})
    for there in ([], groups[:1], groups):
        primitive = build_request(pci_requests=requests, requested_resources=there)
        spec = scheduler.reader.read(build_document(primitive, [make_uuid(1)])).spec
        names = [group.requester_id for group in spec.requested_resources]
        assert sorted(names) == [f"{PCI_REQUEST_UUID}-0", f"{PCI_REQUEST_UUID}-1"]
