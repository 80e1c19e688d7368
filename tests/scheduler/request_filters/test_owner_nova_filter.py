# SPDX-License-Identifier: Apache-2.0
"""Request filter that requires nova's own providers, if all nodes have the trait."""

from dataclasses import replace
from uuid import UUID

import pytest

from placement_sched.model.hardware.pci_requests import InstancePCIRequests
from placement_sched.scheduler.request_filters import NotApplied
from placement_sched.scheduler.request_filters.owner_nova_filter import OwnerNovaFilter
from tests.scheduler.explanations import explain_request, put_hosts
from tests.scheduler.fake_cloud import (
    EMPTY_CLOUD,
    FakeCloud,
    find_added_root_traits,
    run_request_filter,
)
from tests.support.api_clouds import disable_host
from tests.support.scheduling import make_report, make_spec
from tests.support.states import build_spec

OWNER_TRAIT = "OWNER_NOVA"
CLOUD_WITH_OWNER_TRAIT = FakeCloud(common_traits=frozenset({OWNER_TRAIT}))
PCI_REQUEST_UUID, PORT_ID = str(UUID(int=7)), str(UUID(int=8))


def build_request_group(requester_id, **fields):
    return {"requester_id": requester_id, "resources": {"CUSTOM_PCI_GPU": 1}, **fields}


def build_device_request(*requested, requests=()):
    """Return a request for request groups and PCI devices."""
    request = InstancePCIRequests.from_document({"requests": list(requests)})
    return replace(build_spec(requested_resources=list(requested)), pci_requests=request)


PCI_REQUEST_BY_ALIAS = {"count": 2, "spec": [], "alias_name": "gpu", "request_id": PCI_REQUEST_UUID}
PCI_REQUEST_OF_PORT = {"count": 1, "spec": [], "request_id": PORT_ID, "requester_id": PORT_ID}


def test_owner_trait_is_required_of_the_root_if_all_nodes_have_it():
    assert find_added_root_traits(OwnerNovaFilter, build_spec(), CLOUD_WITH_OWNER_TRAIT) == [
        OWNER_TRAIT
    ]
    assert run_request_filter(OwnerNovaFilter, build_spec(), EMPTY_CLOUD) is None
    request = build_spec(request_level_params={"root_required": [OWNER_TRAIT]})
    assert run_request_filter(OwnerNovaFilter, request, CLOUD_WITH_OWNER_TRAIT) is None
    assert run_request_filter(OwnerNovaFilter, request, EMPTY_CLOUD) is None


def test_owner_trait_is_required_in_groups_of_pci_devices():
    request = build_device_request(
        build_request_group(f"{PCI_REQUEST_UUID}-0"),
        build_request_group(f"{PCI_REQUEST_UUID}-1", required_traits=["CUSTOM_FAST"]),
        requests=[PCI_REQUEST_BY_ALIAS],
    )
    outcome = run_request_filter(OwnerNovaFilter, request, CLOUD_WITH_OWNER_TRAIT)
    expected = {
        "root_required": [OWNER_TRAIT],
        "requested_resources": [f"{PCI_REQUEST_UUID}-0", f"{PCI_REQUEST_UUID}-1"],
    }
    assert outcome.changes == expected
    traits = [group.required_traits for group in outcome.spec.requested_resources]
    assert traits == [{OWNER_TRAIT}, {OWNER_TRAIT, "CUSTOM_FAST"}]


@pytest.mark.parametrize(
    ("requester", "requests"),
    [
        (f"{PCI_REQUEST_UUID}-0", []),
        (str(UUID(int=9)), [PCI_REQUEST_BY_ALIAS]),
        (PCI_REQUEST_UUID, [PCI_REQUEST_BY_ALIAS]),
        (f"{PORT_ID}-0", [PCI_REQUEST_BY_ALIAS, PCI_REQUEST_OF_PORT]),
        (None, [PCI_REQUEST_BY_ALIAS]),
    ],
    ids=["no PCI requests", "accelerator", "suffix without device", "port", "no requester"],
)
def test_request_groups_of_other_requesters_do_not_change(requester, requests):
    request = build_device_request(build_request_group(requester), requests=requests)
    outcome = run_request_filter(OwnerNovaFilter, request, CLOUD_WITH_OWNER_TRAIT)
    assert outcome.spec.requested_resources == request.requested_resources
    assert outcome.changes == {"root_required": [OWNER_TRAIT]}


def test_candidates_query_requires_the_owner_trait_if_all_nodes_have_it(app):
    put_hosts(app, cn1=[OWNER_TRAIT], cn2=[OWNER_TRAIT])
    response = explain_request(app, make_spec())
    result = response.get_request_filter_report("owner_nova_filter")
    assert result == {"applied": True, "changes": {"root_required": [OWNER_TRAIT]}}
    assert response.query["root_required"] == [f"{OWNER_TRAIT},!COMPUTE_STATUS_DISABLED"]
    assert response.hosts == ["cn1", "cn2"]
    app.post_json("/scheduler/v1/compute_nodes", [make_report("cn3")])
    mixed = explain_request(app, make_spec())
    assert mixed.get_request_filter_report("owner_nova_filter")["applied"]
    assert mixed.hosts == ["cn1", "cn2"]
    app.post_json("/scheduler/v1/compute_nodes", [make_report("cn4")])
    mixed = explain_request(app, make_spec())
    assert mixed.get_request_filter_report("owner_nova_filter") == {
        "applied": False,
        "changes": {},
        "reason": "2 of 4 enabled compute nodes lack OWNER_NOVA, which nova-compute reports after "
        "its upgrade",
    }
    assert mixed.hosts == ["cn1", "cn2", "cn3", "cn4"]


@pytest.mark.parametrize(
    ("lacking", "is_applied"),
    [
        ((1, 1), False),
        ((1, 2), True),
        ((2, 3), False),
        ((1, 3), True),
        ((2, 19), False),
        ((2, 20), True),
        ((21, 200), False),
    ],
)
def test_a_few_nodes_may_lack_the_owner_trait(lacking, is_applied):
    outcome = run_request_filter(OwnerNovaFilter, build_spec(), FakeCloud(lacking=lacking))
    assert isinstance(outcome, NotApplied) is not is_applied


def test_disabled_node_does_not_need_the_owner_trait(app):
    put_hosts(app, cn1=[OWNER_TRAIT], cn2=[])
    disable_host(app, "cn2")
    response = explain_request(app, make_spec())
    assert response.get_request_filter_report("owner_nova_filter")["applied"]
    assert response.hosts == ["cn1"]
