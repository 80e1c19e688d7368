# SPDX-License-Identifier: Apache-2.0
"""Names of the maximum length in a real browser."""

import pytest
from playwright.sync_api import expect

from tests.console.browser.conftest import PHONE, WIDE
from tests.support.reports import build_report
from tests.support.servers import environment, start_server

pytestmark = pytest.mark.exhaustive

#: Names of the maximum length.
LONG = "x" * 255
INSTANCE = "22222222-2222-4222-8222-222222222222"


@pytest.fixture(scope="module")
def long_named_server(tmp_path_factory):
    """A host with an aggregate, zone, instance and flavor, all with names of maximum length."""
    folder = tmp_path_factory.mktemp("long")
    up = environment(OS_DEFAULT__SERVICE_DOWN_TIME="86400")
    with start_server(folder=folder, variables=up) as server:
        report = build_report(1, host="cn1", hypervisor_hostname="cn1")
        server.request_json("PUT", f"/scheduler/v1/compute_nodes/{report['uuid']}", report)
        aggregates = "/compute/v2.1/os-aggregates"
        body = {"aggregate": {"name": LONG, "availability_zone": LONG}}
        number = server.request_json("POST", aggregates, body)["aggregate"]["id"]
        server.request_json("POST", f"{aggregates}/{number}/action", {"add_host": {"host": "cn1"}})
        flavor = {"name": LONG, "ram": 512, "vcpus": 1, "disk": 1}
        server.request_json("POST", "/compute/v2.1/flavors", {"flavor": flavor})
        spec = {"project_id": "p", "flavor": LONG, "instance_uuids": [INSTANCE]}
        server.request_json("POST", "/scheduler/v1/select_destinations", {"request_spec": spec})
        yield server


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_longest_names_are_wrapped(visit, long_named_server, size):
    uuid = long_named_server.request_json("GET", "/scheduler/v1/decisions")["decisions"][0]["uuid"]
    addresses = [
        "/console/",
        "/console/cloud?open=cn1",
        "/console/hosts/cn1",
        f"/console/ask?flavor={LONG}&zone={LONG}",
        "/console/decisions",
        f"/console/decisions/{uuid}",
        f"/console/decisions/{uuid}/replay",
        f"/console/capacity?flavor={LONG}&per=zone",
        "/console/aggregates",
    ]
    page = visit("/console/policies", server=long_named_server, size=size)
    for address in addresses:
        page.goto(address)
        page.wait_for_load_state("networkidle")
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= size["width"], address


def test_the_longest_names_leave_the_other_columns_in_view(visit, long_named_server):
    page = visit("/console/decisions", server=long_named_server)
    expect(page.locator(".decisions td[data-label=Server] .short")).to_be_in_viewport(ratio=1)
    page.goto("/console/cloud")
    page.locator(".host-table td").last.scroll_into_view_if_needed()
    assert page.locator(".host-table").evaluate("one => one.parentElement.scrollLeft") == 0
