# SPDX-License-Identifier: Apache-2.0
"""Move from OpenStack placement with the commands of the guide."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen
from uuid import uuid4

import pytest
import requests

from tests.coexistence.conftest import OpenStackPlacement
from tests.deploy import DEPLOY_FOLDER, create_certificate, find_program, run_program
from tests.differential.comparison import PEER_PYTHON, skip_without_peer
from tests.docs.pages import PageFile, parse_files_and_commands
from tests.support.loopback import reserve_port
from tests.support.repository import ROOT
from tests.support.servers import PROGRAM, Server, build_environment, start_server, wait_until

pytestmark = pytest.mark.system

ADOPT_PAGE, REFERENCE_PAGE = (
    (ROOT / f"doc/source/{page}.rst").read_text() for page in ("adopt", "adopt_reference")
)
ADMIN_HEADERS = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"}
PROVIDERS_PATH = "/placement/resource_providers"
#: OpenStack's service at the root of a port, in its interpreter.
OPENSTACK_PLACEMENT_PROGRAM = """
import sys
from wsgiref.simple_server import make_server
from placement.wsgi.api import application
make_server("127.0.0.1", int(sys.argv[1]), application).serve_forever()
"""


@contextmanager
def run_openstack_placement(folder: Path, connection: str) -> Iterator[str]:
    """Run an OpenStack placement on a database and yield its URL."""
    log = folder / "openstack.log"
    with reserve_port() as held, log.open("w") as output:
        port = held.getsockname()[1]
        (folder / "placement.conf").write_text("")
        process = subprocess.Popen(
            [PEER_PYTHON, "-c", OPENSTACK_PLACEMENT_PROGRAM, str(port)],
            env={
                **os.environ,
                "OS_PLACEMENT_CONFIG_DIR": str(folder),
                "OS_API__AUTH_STRATEGY": "noauth2",
                "OS_PLACEMENT_DATABASE__CONNECTION": connection,
            },
            stdout=output,
            stderr=output,
        )

        def is_placement_responding() -> bool:
            try:
                with urlopen(f"http://127.0.0.1:{port}/", timeout=60):
                    return True
            except URLError:
                return False

        try:
            assert wait_until(is_placement_responding), log.read_text()
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(timeout=60)


def run_compare_program(*urls: str, status: int = 0) -> str:
    return run_program(sys.executable, DEPLOY_FOLDER / "move/compare.py", *urls, status=status)


def read_comparison_command() -> str:
    """Return the page's command that compares both services, without a token."""
    joined = re.sub(r"\\\n\s+", "", ADOPT_PAGE)
    (line,) = re.findall(r"(python3 deploy/move/compare\.py .*)", joined)
    return line


def run_documented_comparison(theirs: str, ours: str) -> str:
    """Run the command for these services and return its output."""
    line = read_comparison_command()
    for printed, here in (
        ("http://192.0.2.5:8778", theirs),
        ("https://placement.example.com/placement", ours),
    ):
        assert printed in line
        line = line.replace(printed, here)
    return run_program("bash", "-euc", line, cwd=ROOT)


def create_provider_and_consumer(server: Server) -> str:
    """Create a provider with all its data and a consumer, and return the provider's uuid."""
    uuid, consumer = str(uuid4()), str(uuid4())
    at = f"{PROVIDERS_PATH}/{uuid}"
    inventories = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 8}}}
    allocations = {
        "allocations": {uuid: {"resources": {"VCPU": 2}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
    }
    for method, path, body in (
        ("POST", PROVIDERS_PATH, {"name": "cn1", "uuid": uuid}),
        ("PUT", f"{at}/inventories", inventories),
        ("PUT", "/placement/traits/CUSTOM_GOLD", None),
        ("PUT", f"{at}/traits", {"resource_provider_generation": 1, "traits": ["CUSTOM_GOLD"]}),
        (
            "PUT",
            f"{at}/aggregates",
            {"resource_provider_generation": 2, "aggregates": [str(uuid4())]},
        ),
        ("PUT", f"/placement/allocations/{consumer}", allocations),
    ):
        response = requests.request(
            method, server.url + path, json=body, headers=ADMIN_HEADERS, timeout=60
        )
        assert response.status_code < 300, response.text
    return uuid


def test_comparison_with_openstack_placement_finds_no_undocumented_difference(tmp_path):
    skip_without_peer()
    url = f"sqlite:///{tmp_path}/placement.db"
    peer = OpenStackPlacement(url)
    peer.run_placement_manage("db", "sync")
    variables = build_environment(OS_PLACEMENT_DATABASE__CONNECTION=url)
    run_program(PROGRAM, "db", "adopt", "--yes", cwd=tmp_path, env=variables)
    folder = tmp_path / "other"
    folder.mkdir()
    with (
        run_openstack_placement(tmp_path, peer.url) as theirs,
        start_server(folder=tmp_path, variables=variables) as server,
        start_server(folder=folder, variables=build_environment()) as empty,
    ):
        uuid = create_provider_and_consumer(server)
        ours = f"{server.url}/placement"
        assert run_documented_comparison(theirs, ours) == (
            "1 resource providers, 1 consumers: both answer the same\n"
        )
        printed = run_compare_program(theirs, f"{empty.url}/placement", status=1)
        assert f"/resource_providers/{uuid}/inventories\n" in printed
        assert printed.endswith("1 resource providers, 1 consumers: 7 parts differ\n")


def test_comparison_with_an_unavailable_service_fails_in_one_line():
    with reserve_port() as held:
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        assert re.fullmatch(r"no response: .*\n", run_compare_program(url, url, status=1))


def test_haproxy_accepts_the_openstack_backend(tmp_path):
    haproxy = find_program("haproxy")
    (haproxy_lines,) = [
        part.content
        for part in parse_files_and_commands(REFERENCE_PAGE)
        if isinstance(part, PageFile) and part.name == "haproxy.cfg"
    ]
    front, backend = haproxy_lines.split("\n\n")
    (line,) = [line for line in front.splitlines() if "use_backend" in line]
    text = (DEPLOY_FOLDER / "haproxy/haproxy.cfg").read_text()
    text = text.replace("    default_backend", f"{line}\n    default_backend")
    text = re.sub(r"crt \S+", f"crt {create_certificate(tmp_path)}", text)
    (tmp_path / "haproxy.cfg").write_text(f"{text}\n{backend}")
    assert (
        run_program(haproxy, "-c", "-f", tmp_path / "haproxy.cfg")
        == "Configuration file is valid\n"
    )
