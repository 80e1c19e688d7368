# SPDX-License-Identifier: Apache-2.0
"""The page Policies of a server with several policies in a real browser."""

import pytest

from placement_sched.operations import demo as demos
from tests.console.browser.conftest import PHONE, find_accessibility_faults
from tests.support import program
from tests.support.servers import environment, start_server

pytestmark = pytest.mark.exhaustive

PAGE = "/console/policies?policy=dense&beside=default"


@pytest.fixture(scope="module")
def policies_server(tmp_path_factory):
    """A server of the sample cloud with a further policy."""
    folder = tmp_path_factory.mktemp("policies")
    result = program.run("demo", "--keep", "cloud", cwd=folder, env=environment())
    assert result.returncode == 0, result.stderr
    more = folder / "more.conf"
    more.write_text("[dense]\ncpu_allocation_ratio = 8.0\nram_weight_multiplier = -1.0\n")
    config = folder / "cloud" / demos.CONFIG_NAME
    with start_server("--config-file", config, "--config-file", more, folder=folder) as server:
        number = server.request_json(
            "POST", "/compute/v2.1/os-aggregates", {"aggregate": {"name": "d"}}
        )
        body = {"set_metadata": {"metadata": {"sched_policy": "dense"}}}
        path = f"/compute/v2.1/os-aggregates/{number['aggregate']['id']}/action"
        server.request_json("POST", path, body)
        server.request_json("POST", path, {"add_host": {"host": "az1-r01-hdd01"}})
        yield server


def test_policy_of_a_host_leads_to_this_policy(visit, policies_server):
    """Fault F4: the link of a host opened the page of another policy."""
    page = visit("/console/hosts/az1-r01-hdd01", server=policies_server)
    page.get_by_role("link", name="dense").click()
    page.wait_for_url("**/policies?policy=dense")
    assert page.locator("#runs").inner_text() == "Filters and weighers of dense"


def test_two_policies_are_compared_by_keyboard(visit, policies_server):
    page = visit("/console/policies", server=policies_server)
    page.get_by_label("Compare with").select_option("dense")
    page.get_by_role("button", name="Show").press("Enter")
    page.wait_for_url("**beside=dense")
    assert page.locator("#differences").inner_text() == "default compared with dense"
    assert page.locator(".compared").get_by_text("RAMWeigher").count() == 1


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_policies_side_by_side_are_accessible(visit, policies_server, dark):
    page = visit(PAGE, server=policies_server, dark=dark)
    assert find_accessibility_faults(page) == []


def test_policies_side_by_side_fit_a_phone(visit, policies_server):
    page = visit(PAGE, server=policies_server, size=PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
