# SPDX-License-Identifier: Apache-2.0
"""A cloud for the machines of the how-tos: network, keystone and placement.

keystone and placement are OpenStack's, from the environment of ``make peer``. They run on an
address of a network that has only these machines and no route out.
"""

import json
import os
import sqlite3
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from uuid import uuid4

from tests.deploy import DEPLOY_FOLDER, run_program
from tests.differential.comparison import PEER_PYTHON
from tests.support import keystone
from tests.support.servers import wait_until

OPENSTACK_ADDRESS = "192.0.2.5"
KEYSTONE_URL = f"http://{OPENSTACK_ADDRESS}:5000/v3"
PLACEMENT_URL = f"http://{OPENSTACK_ADDRESS}:8778"
_READ_PLACEMENT_PROGRAM = """
import json, sys
sys.path.insert(0, sys.argv[1])
import compare
service = compare.Placement(sys.argv[2])
service.version = "1.39"
print(json.dumps(dict(service.read_parts())))
"""
_FILL_PLACEMENT_PROGRAM = """
import json, sys
from urllib.request import Request, urlopen
address, token, calls = sys.argv[1], sys.argv[2], json.load(sys.stdin)
headers = {"X-Auth-Token": token, "OpenStack-API-Version": "placement 1.39",
           "Content-Type": "application/json"}
for method, path, body in calls:
    data = None if body is None else json.dumps(body).encode()
    urlopen(Request(address + path, data, headers, method=method), timeout=60).close()
"""
#: The administrator's variables, as in keystone's guide.
ADMIN_OPENRC = f"""\
export OS_AUTH_URL={KEYSTONE_URL}
export OS_USERNAME=admin
export OS_PASSWORD={keystone.PASSWORD}
export OS_PROJECT_NAME=service
export OS_USER_DOMAIN_NAME=Default
export OS_PROJECT_DOMAIN_NAME=Default
export OS_IDENTITY_API_VERSION=3
"""


class OpenStackCloud:
    """A network with services of OpenStack."""

    def __init__(self, folder: Path, network: int, stack: ExitStack) -> None:
        self._folder, self._network, self._stack = folder, network, stack

    def run_ip(self, *words: str) -> None:
        """Run ``ip`` in the network."""
        self._run_in_network("ip", *words)

    def connect_machine(self, leader: int, address: str) -> None:
        """Connect a machine, whose first process is ``leader``, to the network."""
        port = f"port{address.rpartition('.')[2]}"
        ends = ("type", "veth", "peer", "name", port, "netns", str(self._network))
        run_program("ip", "link", "add", "host0", "netns", str(leader), *ends)
        self.run_ip("link", "set", port, "master", "bridge", "up")
        there = ("nsenter", f"--target={leader}", "--net", "ip")
        run_program(*there, "address", "add", f"{address}/24", "dev", "host0")
        run_program(*there, "link", "set", "host0", "up")

    def start_keystone(self) -> None:
        """Start keystone with an administrator and the project of the services."""
        folder = self._folder / "keystone"
        keystone.create_keystone_database(folder)
        keystone.bootstrap_keystone(folder, KEYSTONE_URL)
        self._start_service(keystone.KEYSTONE_WSGI_MODULE, 5000, OS_KEYSTONE_CONFIG_DIR=str(folder))

    def set_placement_url(self, url: str) -> None:
        """Set the URL of placement in the catalogue."""
        with closing(sqlite3.connect(self._folder / "keystone/keystone.db")) as database:
            database.execute(
                "UPDATE endpoint SET url = ? WHERE service_id IN"
                " (SELECT id FROM service WHERE type = 'placement')",
                (url,),
            )
            database.commit()

    def start_placement(self, config: str) -> subprocess.Popen[bytes]:
        """Prepare the database of OpenStack placement, and start the service."""
        folder = self._folder / "placement"
        folder.mkdir(exist_ok=True)
        (folder / "placement.conf").write_text(config)
        self.prepare_placement()
        return self._start_service("placement.wsgi.api", 8778, OS_PLACEMENT_CONFIG_DIR=str(folder))

    def prepare_placement(self) -> None:
        """Prepare the database as a deployment or an upgrade of OpenStack placement does."""
        manage = PEER_PYTHON.with_name("placement-manage")
        config = self._folder / "placement/placement.conf"
        self._run_in_network(manage, f"--config-file={config}", "db", "sync")

    def fill_placement(self, token: str, providers: int, consumers: int) -> None:
        """Create data of every kind in OpenStack placement, through its API."""
        self._run_in_network(
            *(PEER_PYTHON, "-c", _FILL_PLACEMENT_PROGRAM, PLACEMENT_URL, token),
            input=json.dumps(list(_build_placement_requests(providers, consumers))),
        )

    def read_placement(self, token: str) -> dict[str, object]:
        """Return all data of OpenStack placement."""
        move = str(DEPLOY_FOLDER / "move")
        variables = {**os.environ, "OS_TOKEN": token}
        return json.loads(
            self._run_in_network(
                PEER_PYTHON, "-c", _READ_PLACEMENT_PROGRAM, move, PLACEMENT_URL, env=variables
            )
        )

    def _start_service(self, module: str, port: int, **variables: str) -> subprocess.Popen[bytes]:
        log = self._folder / f"{module}.log"
        output = self._stack.enter_context(log.open("a"))
        process = subprocess.Popen(
            [
                *self._command_prefix,
                PEER_PYTHON,
                "-c",
                keystone.SERVE_KEYSTONE_PROGRAM,
                module,
                OPENSTACK_ADDRESS,
                str(port),
            ],
            env={**os.environ, **variables},
            stdout=output,
            stderr=output,
        )
        self._stack.callback(stop_process, process)

        def is_port_listening() -> bool:
            assert process.poll() is None, log.read_text()
            return f"{OPENSTACK_ADDRESS}:{port} " in self._run_in_network(
                "ss", "--listening", "--tcp", "--numeric"
            )

        assert wait_until(is_port_listening, 120), log.read_text()
        return process

    @property
    def _command_prefix(self) -> tuple[str, ...]:
        return "nsenter", f"--target={self._network}", "--net", "--"

    def _run_in_network(self, *command: str | Path, **more: object) -> str:
        return run_program(*self._command_prefix, *command, **more)


def _build_placement_requests(providers: int, consumers: int) -> Iterator[tuple[str, str, object]]:
    """Yield requests that create providers and consumers with all their data."""
    uuids = [str(uuid4()) for _ in range(providers)]
    shared = str(uuid4())
    yield "PUT", "/traits/CUSTOM_GOLD", None
    yield "PUT", "/resource_classes/CUSTOM_TAPE", None
    stock = {"VCPU": {"total": 64, "allocation_ratio": 4.0}, "CUSTOM_TAPE": {"total": 5}}
    for number, uuid in enumerate(uuids):
        at = f"/resource_providers/{uuid}"
        # Each third provider is a child of the provider before it.
        parent = {"parent_provider_uuid": uuids[number - 1]} if number % 3 == 2 else {}
        yield "POST", "/resource_providers", {"name": f"cn{number}", "uuid": uuid, **parent}
        now: Mapping[str, int] = {"resource_provider_generation": 0}
        yield "PUT", f"{at}/inventories", {**now, "inventories": stock}
        traits = ["CUSTOM_GOLD", "HW_CPU_X86_VMX"]
        yield "PUT", f"{at}/traits", {"resource_provider_generation": 1, "traits": traits}
        yield "PUT", f"{at}/aggregates", {"resource_provider_generation": 2, "aggregates": [shared]}
    for number in range(consumers):
        held = {"VCPU": 1 + number % 4}
        body = {
            "allocations": {uuids[number % providers]: {"resources": held}},
            "project_id": f"project{number % 5}",
            "user_id": "user",
            "consumer_generation": None,
            "consumer_type": "INSTANCE",
        }
        yield "PUT", f"/allocations/{uuid4()}", body


def stop_process(process: subprocess.Popen[bytes]) -> None:
    """Stop a service of the cloud."""
    process.terminate()
    process.wait(timeout=60)


@contextmanager
def run_cloud(folder: Path) -> Iterator[OpenStackCloud]:
    """Create a network, and stop its services at the end."""
    folder.mkdir()
    with ExitStack() as stack:
        holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        stack.callback(stop_process, holder)
        own_namespace = Path("/proc/self/ns/net").readlink()
        namespace = Path(f"/proc/{holder.pid}/ns/net")
        assert wait_until(lambda: namespace.readlink() != own_namespace, 60)
        network = OpenStackCloud(folder, holder.pid, stack)
        for line in (
            "link set lo up",
            "link add bridge type bridge",
            f"address add {OPENSTACK_ADDRESS}/24 dev bridge",
            "link set bridge up",
        ):
            network.run_ip(*line.split())
        yield network
