# SPDX-License-Identifier: Apache-2.0
"""Links and commands repeat the request of a form."""

import json
import shlex
import subprocess
from urllib.parse import parse_qs, urlsplit

import pytest
from bs4 import BeautifulSoup

from placement_sched.cli.main import main
from tests.extensions.console.ask_page import ASK_PATH, ASK_URL, RAM_WEIGHT, build_host_reports
from tests.extensions.console.ask_page import browser as browser  # noqa: PLC0414 - a fixture
from tests.extensions.console.ask_page import cloud_app as cloud_app  # noqa: PLC0414 - a fixture
from tests.extensions.console.pages import find_link_address, read_text
from tests.support.servers import start_server

pytestmark = pytest.mark.slow

ASK_QUERIES = [
    "vcpus=2&ram=300000&count=2&zone=nova&project=p1",
    f"vcpus=1&{RAM_WEIGHT}=-3&override=filter_scheduler.enabled_filters=[%22RamFilter%22]",
    "vcpus=1&property=trait:HW_CPU_X86_AVX=required&hint=a=b&hint=a=it%27s&image_property=x=y+z",
    "vcpus=1&policy=default&force_host=cn1&force_host=cn2&ignore_host=cn2&host=cn1",
    "vcpus=1&project=--x%20$(id)&hint=-q=%22%60ls%60",
]


@pytest.fixture(scope="module")
def server_with_hosts(tmp_path_factory):
    """A server on another process with three hosts."""
    folder = tmp_path_factory.mktemp("served")
    config = folder / "nova.conf"
    config.write_text(f"[placement_database]\nconnection = sqlite:///{folder}/asked.db\n")
    assert main(["db", "sync", "--config-file", str(config)]) == 0
    with start_server("--config-file", config, folder=folder) as server:
        server.post("/scheduler/v1/compute_nodes", build_host_reports())
        yield server


@pytest.mark.system
@pytest.mark.parametrize("query", ASK_QUERIES)
def test_shared_curl_and_command_get_the_explanation_that_the_page_shows(
    server_with_hosts, query, capsys
):
    _, _, page = server_with_hosts.get(f"{ASK_PATH}?{query}")
    html = BeautifulSoup(page, "html.parser")
    text, curl, typed = (read_text(html), html.find(id="share-curl"), html.find(id="share-command"))
    by_curl = json.loads(
        subprocess.run(
            ["bash", "-c", curl["value"]], capture_output=True, check=True, timeout=60
        ).stdout
    )
    name, *words = shlex.split(typed["value"])
    assert name == "placement-sched"
    assert main([*words, "--format", "json"]) == 0
    by_command = json.loads(capsys.readouterr().out)
    assert select_reproducible_parts(by_curl) == select_reproducible_parts(by_command)
    assert by_curl["outcome"] == ("selected" if "Selected." in text else "no_valid_host") or (
        "host=cn1" in query
    )
    for entry in by_curl["funnel"]["filters"]:
        assert entry["name"] in text


def select_reproducible_parts(explanation: dict) -> dict:
    """Return the part of an explanation that is equal for equal requests."""
    funnel = explanation["funnel"]
    return {
        "outcome": explanation["outcome"],
        "policy": explanation["policy"],
        "verdicts": explanation.get("verdicts"),
        "candidates": funnel["allocation_candidates"],
        "filters": funnel["filters"],
        "weighers": funnel["weighers"],
        "hosts": sorted((host["host"], host["weight"]) for host in explanation["hosts"]),
    }


def test_share_link_contains_every_field_of_the_request(browser):
    query = f"vcpus=2&ram=4096&property=a%3Db%26c&{RAM_WEIGHT}=5&beside=default"
    page = browser.get(f"{ASK_PATH}?{query}")
    address = urlsplit(page.html.select_one("#share-link")["value"])
    assert parse_qs(address.query) == {
        "vcpus": ["2"],
        "ram": ["4096"],
        "property": ["a=b&c"],
        RAM_WEIGHT: ["5"],
        "beside": ["default"],
    }
    again = browser.get(f"{address.path}?{address.query}")
    assert again.html.select_one("#share-curl") == page.html.select_one("#share-curl")


def test_link_to_capacity_has_the_flavor_of_the_request(browser):
    page = browser.get(f"{ASK_URL}&count=3&{RAM_WEIGHT}=5&beside=default")
    address = urlsplit(find_link_address(page, "How many more instances fit"))
    assert address.path == "/console/capacity"
    assert parse_qs(address.query) == {
        "vcpus": ["2"],
        "ram": ["4096"],
        "disk": ["20"],
        RAM_WEIGHT: ["5"],
    }
