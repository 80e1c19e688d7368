# SPDX-License-Identifier: Apache-2.0
"""An operator's commands with ``openstack``, and checks of servers and allocations."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.nova.cloud.cloud import COMPUTE_HOSTS, Cloud, wait_for_condition
from tests.nova.cloud.files import COMPUTE_VERSION
from tests.openstack_client.conftest import OpenStackCommandProcess
from tests.support.servers import build_environment

#: Program that runs many ``openstack`` commands in a process.
OPENSTACK_COMMANDS_PROGRAM = Path(__file__).parents[2] / "openstack_client" / "many_commands.py"
#: Resources of a server by flavor.
RESOURCES_BY_FLAVOR = {
    "m1.tiny": {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1},
    "m1.small": {"VCPU": 2, "MEMORY_MB": 1024, "DISK_GB": 2},
    # Larger than any host.
    "m1.giant": {"VCPU": 1, "MEMORY_MB": 1000000, "DISK_GB": 1},
}
#: Flavors of the servers on each host.
FlavorsByHost = Mapping[str, Sequence[str]]


class Operator:
    """An administrator at a command line."""

    def __init__(self, cloud: Cloud, openstack: OpenStackCommandProcess) -> None:
        self.cloud, self._openstack = cloud, openstack
        self._image = ""
        #: Uuids of the root providers by host.
        self.providers = {host: cloud.read_uuids_by_hypervisor()[host] for host in COMPUTE_HOSTS}

    def run_openstack(self, command: str, *more: str) -> str:
        done = self._openstack.run(*command.split(), *more)
        assert done.returncode == 0, f"openstack {command} {more}: {done.stderr}"
        return done.stdout

    def read_openstack_json(self, command: str, *more: str) -> Any:
        return json.loads(self.run_openstack(command, *more, "-f", "json"))

    def create_flavors_and_images(self) -> None:
        for name, taken in RESOURCES_BY_FLAVOR.items():
            sizes = f"--vcpus {taken['VCPU']} --ram {taken['MEMORY_MB']} --disk {taken['DISK_GB']}"
            self.run_openstack(f"flavor create {name} --id {name} {sizes}")
        image = "image create --disk-format raw --container-format bare"
        self._image = self.read_openstack_json(f"{image} cirros")["id"]
        self.run_openstack(f"{image} ubuntu")
        self.run_openstack(f"{image} power --property hw_architecture=ppc64")

    def create_server(self, name: str, how: str = "", flavor: str = "m1.tiny") -> str:
        command = f"server create --image cirros --flavor {flavor} --nic none {how} {name}"
        return str(self.read_openstack_json(command)["id"])

    def boot_active_server(self, name: str, how: str = "", flavor: str = "m1.tiny") -> str:
        server = self.create_server(name, how, flavor)
        self.wait_for_status(server, "ACTIVE")
        return server

    def create_server_by_api(self, name: str, flavor: str = "m1.tiny") -> tuple[str, str]:
        server = {"name": name, "flavorRef": flavor, "imageRef": self._image, "networks": "none"}
        headers, result = self.cloud.post_server(server)
        return str(result["id"]), headers["x-openstack-request-id"]

    def read_server(self, server: str) -> dict[str, Any]:
        return dict(self.cloud.request_compute_api("GET", f"/servers/{server}")["server"])

    def list_servers(self) -> list[dict[str, Any]]:
        servers = self.cloud.request_compute_api("GET", "/servers/detail?all_tenants=1")["servers"]
        return sorted(servers, key=lambda server: str(server["name"]))

    def read_host_of_server(self, server: str) -> str | None:
        host = self.read_server(server)["OS-EXT-SRV-ATTR:host"]
        return None if host is None else str(host)

    def wait_for_status(self, server: str, status: str) -> dict[str, Any]:
        seen: dict[str, Any] = {}

        def has_status() -> bool:
            seen.update(self.read_server(server))
            if seen["status"] == "ERROR" != status:
                raise AssertionError(f"{seen['name']}: {seen.get('fault')}")
            idle = seen["OS-EXT-STS:task_state"] is None
            return bool(idle and seen["status"] == status)

        wait_for_condition(f"{server} is {status}", has_status, self.cloud)
        return seen

    def wait_for_host(self, server: str, host: str, status: str = "ACTIVE") -> None:
        wait_for_condition(
            f"{server} is on {host}", lambda: self.read_host_of_server(server) == host, self.cloud
        )
        self.wait_for_status(server, status)

    def wait_for_fault(self, server: str) -> str:
        def has_fault() -> bool:
            # Nova records the fault after the status.
            return "fault" in self.wait_for_status(server, "ERROR")

        wait_for_condition(f"{server} has a fault", has_fault, self.cloud)
        return str(self.read_server(server)["fault"]["message"])

    def read_status_of_newest_migration(self, server: str) -> str:
        path = f"/os-migrations?instance_uuid={server}"
        return str(self.cloud.request_compute_api("GET", path)["migrations"][0]["status"])

    def read_allocations(self, consumer: str) -> dict[str, dict[str, int]]:
        path = f"/placement/allocations/{consumer}"
        allocations = self.cloud.request_placement_sched("GET", path)["allocations"]
        names = {uuid: host for host, uuid in self.providers.items()}
        return {names.get(uuid, uuid): part["resources"] for uuid, part in allocations.items()}

    def read_usages_by_host(self) -> dict[str, dict[str, int]]:
        return {
            host: {
                name: amount
                for name, amount in self.cloud.request_placement_sched(
                    "GET", f"/placement/resource_providers/{uuid}/usages"
                )["usages"].items()
                if amount
            }
            for host, uuid in self.providers.items()
        }

    def check_usages(self, taken: FlavorsByHost) -> None:
        expected = {host: _sum_amounts_of_flavors(taken.get(host, ())) for host in COMPUTE_HOSTS}
        usages: list[Any] = [None]

        def are_usages_expected() -> bool:
            usages[0] = self.read_usages_by_host()
            return bool(usages[0] == expected)

        try:
            wait_for_condition(f"allocated is {expected}", are_usages_expected, self.cloud, 120)
        except AssertionError as failure:
            raise AssertionError(f"allocated is {usages[0]}: {failure}") from None

    def check_usages_of_servers(self) -> None:
        servers = [each for each in self.list_servers() if each["OS-EXT-SRV-ATTR:host"]]
        taken: dict[str, list[str]] = {host: [] for host in COMPUTE_HOSTS}
        for server in servers:
            taken[server["OS-EXT-SRV-ATTR:host"]].append(server["flavor"]["original_name"])
        self.check_usages(taken)
        for server in servers:
            expected = {
                server["OS-EXT-SRV-ATTR:host"]: RESOURCES_BY_FLAVOR[
                    server["flavor"]["original_name"]
                ]
            }
            assert self.read_allocations(server["id"]) == expected, server["name"]

    def delete_all_servers(self) -> None:
        for server in self.list_servers():
            self.cloud.request_compute_api("DELETE", f"/servers/{server['id']}")
        wait_for_condition("all servers are gone", lambda: self.list_servers() == [], self.cloud)
        for group in self.cloud.request_compute_api("GET", "/os-server-groups")["server_groups"]:
            self.cloud.request_compute_api("DELETE", f"/os-server-groups/{group['id']}")
        self.check_usages({})

    def add_trait_to_host(self, host: str, trait: str) -> str:
        """Create a trait and add it to a host."""
        self.run_openstack(f"--os-placement-api-version 1.6 trait create {trait}")
        path = f"/placement/resource_providers/{self.providers[host]}/traits"
        body = self.cloud.request_placement_sched("GET", path)
        body["traits"].append(trait)
        self.cloud.request_placement_sched("PUT", path, body)
        return trait

    def is_disabled_in_placement(self, host: str) -> bool:
        path = f"/placement/resource_providers/{self.providers[host]}/traits"
        return (
            "COMPUTE_STATUS_DISABLED" in self.cloud.request_placement_sched("GET", path)["traits"]
        )


def _sum_amounts_of_flavors(flavors: Sequence[str]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for flavor in flavors:
        total.update(RESOURCES_BY_FLAVOR[flavor])
    return dict(total)


@contextmanager
def run_operator_commands(cloud: Cloud) -> Iterator[Operator]:
    variables = {
        "OS_CLOUD": "nova-cloud",
        "OS_CLIENT_CONFIG_FILE": str(cloud.folder / "clouds.yaml"),
        "OS_COMPUTE_API_VERSION": COMPUTE_VERSION,
        "HOME": str(cloud.folder),
    }
    with subprocess.Popen(
        [sys.executable, str(OPENSTACK_COMMANDS_PROGRAM)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
        cwd=cloud.folder,
        env=build_environment(**variables),
    ) as process:
        try:
            yield Operator(cloud, OpenStackCommandProcess(process))
        finally:
            process.kill()
