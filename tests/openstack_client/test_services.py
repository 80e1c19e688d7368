# SPDX-License-Identifier: Apache-2.0
"""Compute services through current and old microversions of the ``openstack`` client."""

import pytest

from tests.openstack_client.reporting import read_traits, report_host

pytestmark = pytest.mark.system

DISABLED_TRAIT = "COMPUTE_STATUS_DISABLED"


def get_service_row(client, host):
    """Return the row of a host's service."""
    (row,) = client.get_json("compute", "service", "list", "--host", host, "--long")
    return row


def test_compute_service_can_be_listed_disabled_forced_down_and_deleted(api_server, client):
    provider = report_host(api_server, "sv1")
    listed = get_service_row(client, "sv1")
    assert len(listed.pop("ID")) == 36
    assert listed.pop("Updated At")
    assert listed == {
        "Binary": "nova-compute",
        "Host": "sv1",
        "Zone": "nova",
        "Status": "enabled",
        "State": "up",
        "Disabled Reason": None,
        "Forced Down": False,
    }
    change = ("compute", "service", "set", "sv1", "nova-compute")
    client(*change, "--disable", "--disable-reason", "broken fan")
    listed = get_service_row(client, "sv1")
    assert (listed["Status"], listed["Disabled Reason"]) == ("disabled", "broken fan")
    assert read_traits(api_server, provider) == {DISABLED_TRAIT}
    client(*change, "--enable")
    listed = get_service_row(client, "sv1")
    assert (listed["Status"], listed["Disabled Reason"]) == ("enabled", None)
    assert read_traits(api_server, provider) == set()
    client(*change, "--down")
    listed = get_service_row(client, "sv1")
    assert (listed["State"], listed["Forced Down"]) == ("down", True)
    client(*change, "--up")
    assert get_service_row(client, "sv1")["State"] == "up"
    found = client.get_json("compute", "service", "list", "--service", "nova-compute")
    assert "sv1" in {each["Host"] for each in found}
    assert client.get_json("compute", "service", "list", "--service", "nova-scheduler") == []
    assert "not found" in client.get_error("compute", "service", "set", "nope", "nova-compute")
    client("compute", "service", "delete", get_service_row(client, "sv1")["ID"])
    assert client.get_json("compute", "service", "list", "--host", "sv1") == []


@pytest.mark.parametrize("version", ["2.1", "2.72"])
def test_client_with_an_old_microversion_changes_services(api_server, clients_by_version, version):
    """Use 2.1, and 2.72 of Stein, which names services by uuid."""
    client = clients_by_version(version)
    provider = report_host(api_server, "sv3")
    change = ("compute", "service", "set", "sv3", "nova-compute")
    client(*change, "--disable", "--disable-reason", "fan")
    listed = get_service_row(client, "sv3")
    assert (listed["Status"], listed["Disabled Reason"]) == ("disabled", "fan")
    assert ("Forced Down" in listed) == (version != "2.1")
    assert read_traits(api_server, provider) == {DISABLED_TRAIT}
    client(*change, "--enable")
    client(*change, "--disable")
    assert get_service_row(client, "sv3")["Disabled Reason"] is None
    client("compute", "service", "delete", str(get_service_row(client, "sv3")["ID"]))
    assert client.get_json("compute", "service", "list", "--host", "sv3") == []
