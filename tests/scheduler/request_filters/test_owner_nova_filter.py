# SPDX-License-Identifier: Apache-2.0
"""Request filter that requires nova's own providers, if all nodes have the trait."""

from dataclasses import replace
from uuid import UUID

import pytest

from placement_sched.model.hardware.pci_requests import InstancePCIRequests
from placement_sched.scheduler.request_filters.owner_nova_filter import OwnerNovaFilter
from tests.scheduler.explanations import explain_request, put_hosts
from tests.scheduler.fake_cloud import (
    EMPTY_CLOUD,
    FakeCloud,
    find_added_root_traits,
    run_request_filter,
)
from tests.support.scheduling import report, spec
from tests.support.states import build_spec

OWNER = "OWNER_NOVA"
MARKED = FakeCloud(common_traits=frozenset({OWNER}))
REQUEST, PORT = str(UUID(int=7)), str(UUID(int=8))
NEWEST = {"OpenStack-API-Version": "compute 2.96"}


def build_request_group(requester_id, **fields):
    return {"requester_id": requester_id, "resources": {"CUSTOM_PCI_GPU": 1}, **fields}


def build_device_request(*requested, requests=()):
    """Return a request for request groups and PCI devices."""
    request = InstancePCIRequests.from_document({"requests": list(requests)})
    return replace(build_spec(requested_resources=list(requested)), pci_requests=request)


BY_ALIAS = {"count": 2, "spec": [], "alias_name": "gpu", "request_id": REQUEST}
BY_PORT = {"count": 1, "spec": [], "request_id": PORT, "requester_id": PORT}


def test_root_trait_is_required_if_all_nodes_have_it():
    assert find_added_root_traits(OwnerNovaFilter, build_spec(), MARKED) == [OWNER]
    assert run_request_filter(OwnerNovaFilter, build_spec(), EMPTY_CLOUD) is None
    request = build_spec(request_level_params={"root_required": [OWNER]})
    assert run_request_filter(OwnerNovaFilter, request, MARKED) is None
    assert run_request_filter(OwnerNovaFilter, request, EMPTY_CLOUD) is None


def test_trait_is_required_in_groups_of_pci_devices():
    request = build_device_request(
        build_request_group(f"{REQUEST}-0"),
        build_request_group(f"{REQUEST}-1", required_traits=["CUSTOM_FAST"]),
        requests=[BY_ALIAS],
    )
    outcome = run_request_filter(OwnerNovaFilter, request, MARKED)
    expected = {"root_required": [OWNER], "requested_resources": [f"{REQUEST}-0", f"{REQUEST}-1"]}
    assert outcome.changes == expected
    traits = [group.required_traits for group in outcome.spec.requested_resources]
    assert traits == [{OWNER}, {OWNER, "CUSTOM_FAST"}]


@pytest.mark.parametrize(
    ("requester", "requests"),
    [
        (f"{REQUEST}-0", []),
        (str(UUID(int=9)), [BY_ALIAS]),
        (REQUEST, [BY_ALIAS]),
        (f"{PORT}-0", [BY_ALIAS, BY_PORT]),
        (None, [BY_ALIAS]),
    ],
    ids=["no PCI requests", "accelerator", "no device of it", "port", "nobody"],
)
def test_groups_of_other_requesters_do_not_change(requester, requests):
    request = build_device_request(build_request_group(requester), requests=requests)
    outcome = run_request_filter(OwnerNovaFilter, request, MARKED)
    assert outcome.spec.requested_resources == request.requested_resources
    assert outcome.changes == {"root_required": [OWNER]}


def test_query_requires_the_owner_trait_after_all_nodes_have_it(app):
    put_hosts(app, cn1=[OWNER], cn2=[OWNER])
    answer = explain_request(app, spec())
    result = answer.get_request_filter_report("owner_nova_filter")
    assert result == {"applied": True, "changes": {"root_required": [OWNER]}}
    assert answer.query["root_required"] == [f"{OWNER},!COMPUTE_STATUS_DISABLED"]
    assert answer.hosts == ["cn1", "cn2"]
    app.post_json("/scheduler/v1/compute_nodes", [report("cn3")])
    mixed = explain_request(app, spec())
    assert mixed.get_request_filter_report("owner_nova_filter") == {"applied": False, "changes": {}}
    assert mixed.hosts == ["cn1", "cn2", "cn3"]


def test_disabled_node_does_not_need_the_owner_trait(app):
    put_hosts(app, cn1=[OWNER], cn2=[])
    services = app.get("/compute/v2.1/os-services?host=cn2", headers=NEWEST).json["services"]
    address = f"/compute/v2.1/os-services/{services[0]['id']}"
    app.put_json(address, {"status": "disabled"}, headers=NEWEST)
    answer = explain_request(app, spec())
    assert answer.get_request_filter_report("owner_nova_filter")["applied"]
    assert answer.hosts == ["cn1"]
