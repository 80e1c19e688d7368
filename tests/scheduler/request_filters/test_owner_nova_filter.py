# SPDX-License-Identifier: Apache-2.0
"""owner_nova_filter: requests keep to nova's own providers, once all nodes mark theirs."""

from dataclasses import replace
from uuid import UUID

import pytest

from placement_sched.model.hardware.pci_requests import InstancePCIRequests
from placement_sched.scheduler.request_filters.owner_nova_filter import OwnerNovaFilter
from tests.scheduler.explained import explained, put_hosts
from tests.scheduler.worlds import NOWHERE, AWorld, applied, root_required
from tests.support.scheduling import report, spec
from tests.support.states import a_spec, settings_with

OWNER = "OWNER_NOVA"
MARKED = AWorld(common_traits=frozenset({OWNER}))
REQUEST, PORT = str(UUID(int=7)), str(UUID(int=8))
NEWEST = {"OpenStack-API-Version": "compute 2.96"}


def a_group(requester_id, **fields):
    return {"requester_id": requester_id, "resources": {"CUSTOM_PCI_GPU": 1}, **fields}


def devices(*requested, requests=()):
    """Return a request for these groups, and for these PCI devices."""
    asked = InstancePCIRequests.from_document({"requests": list(requests)})
    return replace(a_spec(requested_resources=list(requested)), pci_requests=asked)


BY_ALIAS = {"count": 2, "spec": [], "alias_name": "gpu", "request_id": REQUEST}
BY_PORT = {"count": 1, "spec": [], "request_id": PORT, "requester_id": PORT}


def test_root_must_be_novas_where_all_nodes_are_marked():
    assert root_required(OwnerNovaFilter, a_spec(), MARKED) == [OWNER]


def test_nothing_is_asked_while_a_node_lacks_the_mark():
    assert applied(OwnerNovaFilter, a_spec(), NOWHERE) is None


def test_request_that_asks_itself_is_left_alone_whatever_the_nodes_have():
    asked = a_spec(request_level_params={"root_required": [OWNER]})
    assert applied(OwnerNovaFilter, asked, MARKED) is None
    assert applied(OwnerNovaFilter, asked, NOWHERE) is None


def test_groups_of_pci_devices_are_marked_as_well():
    asked = devices(
        a_group(f"{REQUEST}-0"),
        a_group(f"{REQUEST}-1", required_traits=["CUSTOM_FAST"]),
        requests=[BY_ALIAS],
    )
    outcome = applied(OwnerNovaFilter, asked, MARKED)
    assert outcome.changes == {
        "root_required": [OWNER],
        "requested_resources": [f"{REQUEST}-0", f"{REQUEST}-1"],
    }
    assert [one.required_traits for one in outcome.spec.requested_resources] == [
        {OWNER},
        {OWNER, "CUSTOM_FAST"},
    ]


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
def test_other_groups_are_left_as_they_are(requester, requests):
    asked = devices(a_group(requester), requests=requests)
    outcome = applied(OwnerNovaFilter, asked, MARKED)
    assert outcome.spec.requested_resources == asked.requested_resources
    assert outcome.changes == {"root_required": [OWNER]}


def test_filter_is_always_on():
    assert OwnerNovaFilter().enabled(settings_with())


# From end to end


def test_marked_cloud_asks_for_the_mark_and_another_does_not(app):
    put_hosts(app, cn1=[OWNER], cn2=[OWNER])
    told = explained(app, spec())
    assert told.told_by("owner_nova_filter") == {
        "applied": True,
        "changes": {"root_required": [OWNER]},
    }
    assert told.query["root_required"] == [f"{OWNER},!COMPUTE_STATUS_DISABLED"]
    assert told.hosts == ["cn1", "cn2"]
    app.post_json("/scheduler/v1/compute_nodes", [report("cn3")])
    mixed = explained(app, spec())
    assert mixed.told_by("owner_nova_filter") == {"applied": False, "changes": {}}
    assert mixed.hosts == ["cn1", "cn2", "cn3"]


def test_node_that_is_disabled_does_not_count(app):
    put_hosts(app, cn1=[OWNER], cn2=[])
    services = app.get("/compute/v2.1/os-services?host=cn2", headers=NEWEST).json["services"]
    address = f"/compute/v2.1/os-services/{services[0]['id']}"
    app.put_json(address, {"status": "disabled"}, headers=NEWEST)
    told = explained(app, spec())
    assert told.told_by("owner_nova_filter")["applied"]
    assert told.hosts == ["cn1"]


def test_pci_devices_of_a_request_are_looked_for_among_novas_own(sqlite_app):
    put_hosts(sqlite_app, cn1=[OWNER])
    asked = spec(
        pci_requests={"requests": [BY_ALIAS | {"count": 1}]},
        requested_resources=[{"requester_id": f"{REQUEST}-0", "resources": {"PGPU": 1}}],
    )
    told = explained(sqlite_app, asked)
    assert told.told_by("owner_nova_filter")["changes"] == {
        "root_required": [OWNER],
        "requested_resources": [f"{REQUEST}-0"],
    }
    assert told.query[f"required{REQUEST}-0"] == [OWNER]
    assert told.hosts == []
