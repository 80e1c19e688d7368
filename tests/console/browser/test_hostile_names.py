"""In a real browser, no name of a hostile cloud is anything but text."""

import pytest

from tests.console.hostile import make_hostile, pages_of
from tests.servers import environment, started


@pytest.fixture(scope="module")
def hostile_server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    up = environment(OS_DEFAULT__SERVICE_DOWN_TIME="86400")
    with started(folder=folder, variables=up) as server:
        make_hostile(lambda method, path, body: server.send(method, path, body)[1])
        yield server


def test_no_name_runs_as_a_script_or_brings_an_element(visit, hostile_server):
    addresses = list(pages_of(lambda path: hostile_server.ask("GET", path)))
    page = visit(addresses[0], server=hostile_server, expected_errors=("/console/", "/?"))
    for address in addresses:
        page.goto(address)
        page.wait_for_load_state("networkidle")
        # What a script would set; the page of a host has the host's name as its title, as text.
        assert page.title() != "hacked", address
        assert page.locator("img").count() == 0, address
        assert page.locator("main").count() == 1, address
