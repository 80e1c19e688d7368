# SPDX-License-Identifier: Apache-2.0
"""Servers, reported hosts, and the unmodified ``openstack`` client."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import openstack as openstack_sdk
import pytest
import yaml

from tests.conftest import create_server_database
from tests.openstack_client.reporting import report_host
from tests.support.commands import run_captured
from tests.support.servers import PROGRAMS_FOLDER, Server, build_environment, serve_database

HOST_NAMES = ("cn1", "cn2", "cn3", "cn4")
#: The hosts whose providers have a trait.
HOSTS_WITH_LICENSED_TRAIT = ("cn2", "cn3")


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server for tests of whole lists, whose only hosts are the hosts of ``reported_hosts``."""
    with serve_database(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="session")
def server_for_unique_names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server for tests that create objects under unique names."""
    with serve_database(tmp_path_factory.mktemp("busy_server")) as server:
        yield server


@pytest.fixture(
    scope="session", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.exhaustive)]
)
def api_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server on SQLite or PostgreSQL, for tests that create objects under unique names."""
    folder = tmp_path_factory.mktemp(f"{request.param}_server")
    with ExitStack() as stack:
        connection = None
        if request.param != "sqlite":
            connection = stack.enter_context(contextmanager(create_server_database)(request.param))
        yield stack.enter_context(serve_database(folder, connection))


@pytest.fixture(scope="session")
def clients_by_version(
    api_server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator["OpenStackCommandsByMicroversion"]:
    """The clients of this server, by microversion of the compute API."""
    with OpenStackCommandsByMicroversion(
        OpenStackCommand(tmp_path_factory.mktemp("each"), api_server.url)
    ) as clients:
        yield clients


@pytest.fixture(scope="session")
def client(clients_by_version: "OpenStackCommandsByMicroversion") -> "OpenStackCommandProcess":
    """The client of that server at the newest microversion."""
    return clients_by_version()


@pytest.fixture
def unique_name() -> str:
    """Return a unique name."""
    return f"p{uuid4().hex[:8]}"


@pytest.fixture(scope="session")
def reported_hosts(server: Server) -> tuple[str, ...]:
    """Report hosts, two of them with a trait, and return their names."""
    server.request_json("PUT", "/placement/traits/CUSTOM_LICENSED", version="placement 1.6")
    for host in HOST_NAMES:
        uuid = report_host(server, host, vcpus_used=0, memory_mb_used=0)
        if host in HOSTS_WITH_LICENSED_TRAIT:
            path = f"/placement/resource_providers/{uuid}"
            generation = server.request_json("GET", path)["generation"]
            body = {"resource_provider_generation": generation, "traits": ["CUSTOM_LICENSED"]}
            server.request_json("PUT", f"{path}/traits", body, version="placement 1.6")
    return HOST_NAMES


class OpenStackCommand:
    """The ``openstack`` command as an operator's shell runs it."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        cloud = {
            "auth_type": "admin_token",
            "auth": {"endpoint": f"{url}/placement", "token": "admin"},
            "identity_api_version": 3,
            "compute_endpoint_override": f"{url}/compute/v2.1",
            "image_endpoint_override": f"{url}/image",
            "identity_endpoint_override": f"{url}/identity",
        }
        (folder / "clouds.yaml").write_text(yaml.safe_dump({"clouds": {"here": cloud}}))

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run_captured(
            [PROGRAMS_FOLDER / "openstack", *arguments],
            stdin=subprocess.DEVNULL,
            cwd=self._folder,
            env=build_environment(OS_CLOUD="here", HOME=str(self._folder)),
        )

    @contextmanager
    def start_process(self) -> Iterator["OpenStackCommandProcess"]:
        """Start a client that runs its commands in a single process."""
        with subprocess.Popen(
            [sys.executable, Path(__file__).with_name("many_commands.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            cwd=self._folder,
            env=build_environment(OS_CLOUD="here", HOME=str(self._folder)),
        ) as process:
            yield OpenStackCommandProcess(process)
            assert process.stdin is not None
            process.stdin.close()

    def __call__(self, *arguments: str) -> None:
        """Run a command that must succeed."""
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr

    def get_json(self, *arguments: str) -> Any:
        """Run a command, and return its output as JSON."""
        done = self.run(*arguments, "-f", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def get_error(self, *arguments: str) -> str:
        """Run a command that must fail, and return its standard error."""
        done = self.run(*arguments)
        assert done.returncode != 0, done.stdout
        return done.stderr


class OpenStackCommandProcess(OpenStackCommand):
    """The ``openstack`` command in a single process, each time with the arguments ``first``."""

    leading_arguments: tuple[str, ...] = ()

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps([*self.leading_arguments, *arguments]) + "\n")
        line = process.stdout.readline()
        assert line, "the process ended"
        return subprocess.CompletedProcess(arguments, *json.loads(line))


class OpenStackCommandsByMicroversion(ExitStack):
    """Clients of a server by microversion of an API.

    Each has its own process. The imports take more than a second, and within a process the client
    keeps the first microversion.
    """

    def __init__(self, client: OpenStackCommand, api: str = "compute") -> None:
        super().__init__()
        self._client, self._option = client, f"--os-{api}-api-version"
        self._processes: dict[str, OpenStackCommandProcess] = {}

    def __call__(self, version: str = "") -> OpenStackCommandProcess:
        """Return the client of a microversion, by default the newest that both sides support."""
        if version not in self._processes:
            process = self.enter_context(self._client.start_process())
            process.leading_arguments = (self._option, version) if version else ()
            self._processes[version] = process
        return self._processes[version]


@pytest.fixture(scope="session")
def openstack_client(server: Server, tmp_path_factory: pytest.TempPathFactory) -> OpenStackCommand:
    """The client with a clouds.yaml that names the three APIs of the server."""
    return OpenStackCommand(tmp_path_factory.mktemp("client"), server.url)


@pytest.fixture(scope="session")
def placement_clients(
    server_for_unique_names: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OpenStackCommandsByMicroversion]:
    """The clients of that server, by microversion of placement."""
    openstack_client = OpenStackCommand(
        tmp_path_factory.mktemp("busy_client"), server_for_unique_names.url
    )
    with OpenStackCommandsByMicroversion(openstack_client, "placement") as clients:
        yield clients


def connect_sdk(server: Server, **options: Any) -> Any:
    """Return openstacksdk's connection, like that of the documented ``clouds.yaml``."""
    return openstack_sdk.connect(
        load_yaml_config=False,
        load_envvars=False,
        auth_type="admin_token",
        auth={"endpoint": f"{server.url}/placement", "token": "admin"},
        compute_endpoint_override=f"{server.url}/compute/v2.1",
        image_endpoint_override=f"{server.url}/image",
        identity_endpoint_override=f"{server.url}/identity",
        **options,
    )
