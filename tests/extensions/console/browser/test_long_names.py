# SPDX-License-Identifier: Apache-2.0
"""Names of the maximum length in a real browser."""

import pytest
from playwright.sync_api import expect

from tests.extensions.console.browser.conftest import DESKTOP_SIZE, PHONE_SIZE
from tests.support.reports import build_report
from tests.support.servers import build_environment, start_server

pytestmark = pytest.mark.exhaustive

#: Names of the maximum length.
LONGEST_NAME = "x" * 255
INSTANCE_UUID = "22222222-2222-4222-8222-222222222222"


@pytest.fixture(scope="module")
def server_with_longest_names(tmp_path_factory):
    """A host with an aggregate, zone, instance and flavor, all with names of maximum length."""
    folder = tmp_path_factory.mktemp("long")
    up = build_environment(OS_DEFAULT__SERVICE_DOWN_TIME="86400")
    with start_server(folder=folder, variables=up) as server:
        report = build_report(1, host="cn1", hypervisor_hostname="cn1")
        server.request_json("PUT", f"/scheduler/v1/compute_nodes/{report['uuid']}", report)
        aggregates = "/compute/v2.1/os-aggregates"
        body = {"aggregate": {"name": LONGEST_NAME, "availability_zone": LONGEST_NAME}}
        number = server.request_json("POST", aggregates, body)["aggregate"]["id"]
        server.request_json("POST", f"{aggregates}/{number}/action", {"add_host": {"host": "cn1"}})
        flavor = {"name": LONGEST_NAME, "ram": 512, "vcpus": 1, "disk": 1}
        server.request_json("POST", "/compute/v2.1/flavors", {"flavor": flavor})
        spec = {"project_id": "p", "flavor": LONGEST_NAME, "instance_uuids": [INSTANCE_UUID]}
        server.request_json("POST", "/scheduler/v1/select_destinations", {"request_spec": spec})
        yield server


@pytest.mark.parametrize("size", [DESKTOP_SIZE, PHONE_SIZE], ids=["wide", "phone"])
def test_longest_names_of_objects_are_wrapped(open_page, server_with_longest_names, size):
    uuid = server_with_longest_names.request_json("GET", "/scheduler/v1/decisions")["decisions"][0][
        "uuid"
    ]
    addresses = [
        "/console/",
        "/console/cloud?open=cn1",
        "/console/hosts/cn1",
        f"/console/ask?flavor={LONGEST_NAME}&zone={LONGEST_NAME}",
        "/console/decisions",
        f"/console/decisions/{uuid}",
        f"/console/decisions/{uuid}/replay",
        f"/console/capacity?flavor={LONGEST_NAME}&per=zone",
        "/console/aggregates",
    ]
    page = open_page("/console/policies", server=server_with_longest_names, size=size)
    for address in addresses:
        page.goto(address)
        page.wait_for_load_state("networkidle")
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= size["width"], address


def test_table_columns_beside_the_longest_names_are_visible(open_page, server_with_longest_names):
    page = open_page("/console/decisions", server=server_with_longest_names)
    expect(page.locator(".decisions td[data-label=Server] .short")).to_be_in_viewport(ratio=1)
    page.goto("/console/cloud")
    page.locator(".host-table td").last.scroll_into_view_if_needed()
    assert page.locator(".host-table").evaluate("one => one.parentElement.scrollLeft") == 0
