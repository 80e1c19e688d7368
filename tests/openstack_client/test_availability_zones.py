# SPDX-License-Identifier: Apache-2.0
"""Availability zones through the unmodified ``openstack`` client."""

import pytest

from tests.support.reports import build_report

pytestmark = pytest.mark.system


def test_availability_zones_are_listed_with_their_hosts(api_server, client):
    hosts = [build_report(810 + number, host=f"zone{number}") for number in (1, 2)]
    names = [each["host"] for each in hosts]
    reports = [{**each, "hypervisor_hostname": each["host"]} for each in hosts]
    api_server.request_json("POST", "/scheduler/v1/compute_nodes", reports)
    client("aggregate", "create", "--zone", "life.west", "life.west")
    client("aggregate", "add", "host", "life.west", names[0])
    listed = client.get_json("availability", "zone", "list", "--compute")
    states = {row["Zone Name"]: row["Zone Status"] for row in listed}
    assert (states["life.west"], states["nova"]) == ("available", "available")
    rows = client.get_json("availability", "zone", "list", "--compute", "--long")
    (row,) = (row for row in rows if row["Host Name"] == names[0])
    assert row["Zone Name"] == "life.west"
    assert (row["Service Name"], row["Service Status"][:12]) == ("nova-compute", "enabled :-) ")
    assert "nova" in {row["Zone Name"] for row in rows if row["Host Name"] == names[1]}
    client("aggregate", "remove", "host", "life.west", names[0])
    client("aggregate", "delete", "life.west")
    for each in hosts:
        api_server.request_json("DELETE", f"/scheduler/v1/compute_nodes/{each['uuid']}")
