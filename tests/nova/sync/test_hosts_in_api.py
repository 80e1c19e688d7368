# SPDX-License-Identifier: Apache-2.0
"""The API shows hosts of nova like hosts that report to this service."""

import pytest


@pytest.fixture
def synced_app(make_follower, two_cell_cloud, make_app, settings):
    two_cell_cloud.add_host("cn1", "one")
    two_cell_cloud.add_host("cn2", "two", disabled=True, disabled_reason="mend it")
    two_cell_cloud.add_instance("cn1", "one", display_name="web")
    two_cell_cloud.add_aggregate("racks", ("cn1",), availability_zone="north", rack="r1")
    make_follower(two_cell_cloud).sync_all()
    return make_app(settings)


def test_hosts_of_nova_are_listed_with_their_cells(synced_app):
    response = synced_app.get("/scheduler/v1/hosts").json
    first, second = response["hosts"]
    assert [response["cells"][one["cell"]]["name"] for one in (first, second)] == ["one", "two"]
    assert (first["zone"], first["instances"], first["aggregates"]) == ("north", 1, [0])
    assert response["aggregates"][0]["metadata"] == {"availability_zone": "north", "rack": "r1"}
    assert (second["state"], second["disabled_reason"]) == ("disabled", "mend it")
    # Only a nova-compute creates providers, and none has run.
    assert first["resources"] == {}


def test_host_of_nova_is_shown_with_cell_instances_and_report(synced_app):
    host = synced_app.get("/scheduler/v1/hosts/cn1").json
    (node,) = host["nodes"]
    assert (node["cell"]["name"], node["cell"]["away_since"]) == ("one", None)
    assert node["report"]["vcpus"] == 32
    assert len(node["report"]["numa_topology"]["cells"]) == 2
    (there,) = host["instances"]
    assert (there["name"], there["flavor"]) == ("web", "m1.small")


def test_page_of_hosts_has_the_cells_of_its_hosts(synced_app):
    response = synced_app.get("/scheduler/v1/hosts?host=cn2").json
    assert [cell["name"] for cell in response["cells"]] == ["two"]
    assert response["hosts"][0]["cell"] == 0
