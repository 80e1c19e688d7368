# SPDX-License-Identifier: Apache-2.0
"""Operations on servers, whose outcomes are the same with every scheduler."""

import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

from tests.nova.cloud.cloud import COMPUTE_HOSTS, wait_for_condition
from tests.nova.cloud.operator_commands import Operator

FIRST_HOST, SECOND_HOST = COMPUTE_HOSTS
#: Outcome of a step: facts that do not depend on a random choice between equal hosts.
OperationOutcome = Any


def boot_server(operator: Operator) -> OperationOutcome:
    server = operator.wait_for_status(operator.create_server("one"), "ACTIVE")
    operator.check_usages_of_servers()
    return server["OS-EXT-AZ:availability_zone"]


def boot_three_servers(operator: Operator) -> OperationOutcome:
    operator.create_server("many", "--min 3 --max 3")
    servers = operator.list_servers()
    for server in servers:
        operator.wait_for_status(server["id"], "ACTIVE")
    operator.check_usages_of_servers()
    return sorted(Counter(operator.read_host_of_server(one["id"]) for one in servers).values())


def boot_server_larger_than_any_host(operator: Operator) -> OperationOutcome:
    server = operator.create_server("giant", flavor="m1.giant")
    fault = operator.wait_for_fault(server)
    assert operator.read_allocations(server) == {}
    return fault


def boot_server_on_named_host(operator: Operator) -> OperationOutcome:
    forced = operator.boot_active_server("forced", f"--availability-zone nova:{FIRST_HOST}")
    chosen = operator.boot_active_server("asked", f"--host {SECOND_HOST}")
    too_large = operator.create_server("giant", f"--host {FIRST_HOST}", "m1.giant")
    fault = operator.wait_for_fault(too_large)
    operator.check_usages_of_servers()
    return operator.read_host_of_server(forced), operator.read_host_of_server(chosen), fault


def boot_servers_of_anti_affinity_group(operator: Operator) -> OperationOutcome:
    group = operator.read_openstack_json("server group create --policy anti-affinity apart")["id"]
    hosts = {
        operator.read_host_of_server(operator.boot_active_server(name, f"--hint group={group}"))
        for name in "ab"
    }
    third = operator.create_server("c", f"--hint group={group}")
    fault = operator.wait_for_fault(third)
    operator.check_usages_of_servers()
    return sorted(map(str, hosts)), fault


def boot_servers_of_affinity_group(operator: Operator) -> OperationOutcome:
    group = operator.read_openstack_json("server group create --policy affinity together")["id"]
    hosts = {
        operator.read_host_of_server(operator.boot_active_server(name, f"--hint group={group}"))
        for name in "ab"
    }
    operator.check_usages_of_servers()
    return len(hosts)


def boot_servers_with_disabled_host(operator: Operator) -> OperationOutcome:
    operator.run_openstack(f"compute service set --disable {FIRST_HOST} nova-compute")
    wait_for_condition(
        "disabled", lambda: operator.is_disabled_in_placement(FIRST_HOST), operator.cloud
    )
    hosts = [operator.read_host_of_server(operator.boot_active_server(name)) for name in "ab"]
    fault = operator.wait_for_fault(operator.create_server("c", f"--host {FIRST_HOST}"))
    operator.run_openstack(f"compute service set --enable {FIRST_HOST} nova-compute")
    wait_for_condition(
        "enabled", lambda: not operator.is_disabled_in_placement(FIRST_HOST), operator.cloud
    )
    again = operator.read_host_of_server(operator.boot_active_server("d"))
    operator.check_usages_of_servers()
    return hosts, fault, again


def boot_server_in_availability_zone(operator: Operator) -> OperationOutcome:
    operator.run_openstack("aggregate create --zone north racks")
    operator.run_openstack(f"aggregate add host racks {SECOND_HOST}")
    server = operator.boot_active_server("north", "--availability-zone north")
    document = operator.read_server(server)
    other = operator.read_host_of_server(
        operator.boot_active_server("south", "--availability-zone nova")
    )
    operator.check_usages_of_servers()
    operator.delete_all_servers()
    operator.run_openstack(f"aggregate remove host racks {SECOND_HOST}")
    operator.run_openstack("aggregate delete racks")
    return document["OS-EXT-SRV-ATTR:host"], document["OS-EXT-AZ:availability_zone"], other


def migrate_server(operator: Operator) -> OperationOutcome:
    server = operator.boot_active_server("walker", f"--availability-zone nova:{FIRST_HOST}")
    operator.run_openstack(f"server migrate {server}")
    operator.wait_for_status(server, "VERIFY_RESIZE")
    operator.check_usages({FIRST_HOST: ["m1.tiny"], SECOND_HOST: ["m1.tiny"]})
    operator.run_openstack(f"server migration confirm {server}")
    operator.wait_for_status(server, "ACTIVE")
    confirmed = operator.read_host_of_server(server)
    operator.check_usages_of_servers()
    operator.run_openstack(f"server migrate {server}")
    operator.wait_for_status(server, "VERIFY_RESIZE")
    operator.run_openstack(f"server migration revert {server}")
    operator.wait_for_status(server, "ACTIVE")
    operator.check_usages_of_servers()
    return confirmed, operator.read_host_of_server(server)


def live_migrate_server(operator: Operator) -> OperationOutcome:
    server = operator.boot_active_server("runner", f"--availability-zone nova:{FIRST_HOST}")
    operator.run_openstack(f"server migrate --live-migration {server}")
    operator.wait_for_host(server, SECOND_HOST)
    operator.check_usages_of_servers()
    operator.run_openstack(f"server migrate --live-migration --host {FIRST_HOST} {server}")
    operator.wait_for_host(server, FIRST_HOST)
    operator.check_usages_of_servers()
    return operator.read_host_of_server(server)


def resize_server(operator: Operator) -> OperationOutcome:
    server = operator.boot_active_server("grower", f"--availability-zone nova:{FIRST_HOST}")
    operator.run_openstack(f"server resize --flavor m1.small {server}")
    operator.wait_for_status(server, "VERIFY_RESIZE")
    operator.check_usages({FIRST_HOST: ["m1.tiny"], SECOND_HOST: ["m1.small"]})
    operator.run_openstack(f"server resize confirm {server}")
    document = operator.wait_for_status(server, "ACTIVE")
    operator.check_usages_of_servers()
    operator.run_openstack(f"server resize --flavor m1.giant {server}")
    event = _wait_for_failed_action(operator, server, "resize")
    after = operator.wait_for_status(server, "ACTIVE")
    operator.check_usages_of_servers()
    return document["OS-EXT-SRV-ATTR:host"], event, after["flavor"]["original_name"]


def shelve_and_unshelve_server(operator: Operator) -> OperationOutcome:
    server = operator.boot_active_server("sleeper")
    operator.run_openstack(f"server shelve {server}")
    operator.wait_for_status(server, "SHELVED_OFFLOADED")
    operator.check_usages({})
    operator.run_openstack(f"server unshelve {server}")
    operator.wait_for_status(server, "ACTIVE")
    operator.check_usages_of_servers()
    operator.run_openstack(f"server shelve {server}")
    operator.wait_for_status(server, "SHELVED_OFFLOADED")
    operator.run_openstack(f"server unshelve --host {SECOND_HOST} {server}")
    operator.wait_for_status(server, "ACTIVE")
    operator.check_usages_of_servers()
    return operator.read_host_of_server(server)


def rebuild_server(operator: Operator) -> OperationOutcome:
    server = operator.boot_active_server("phoenix", f"--availability-zone nova:{FIRST_HOST}")
    operator.run_openstack(f"server rebuild --image ubuntu {server}")
    operator.wait_for_status(server, "ACTIVE")
    image = operator.read_server(server)["image"]["id"]
    name = operator.read_openstack_json(f"image show {image}")["name"]
    operator.check_usages_of_servers()
    operator.run_openstack(f"server rebuild --image power {server}")
    fault = operator.wait_for_fault(server)
    operator.check_usages_of_servers()
    return name, operator.read_host_of_server(server), fault


def evacuate_server(operator: Operator) -> OperationOutcome:
    cloud, compute = operator.cloud, operator.cloud.computes[FIRST_HOST]
    server = operator.boot_active_server("refugee", f"--availability-zone nova:{FIRST_HOST}")
    compute.kill()
    service = cloud.read_services_by_host("nova-compute")[FIRST_HOST]["id"]
    cloud.request_compute_api("PUT", f"/os-services/{service}", {"forced_down": True})
    elsewhere = operator.read_host_of_server(operator.boot_active_server("bystander"))
    operator.run_openstack(f"server evacuate {server}")
    # The server stays stopped since 2.95.
    operator.wait_for_host(server, SECOND_HOST, "SHUTOFF")
    operator.check_usages({FIRST_HOST: ["m1.tiny"], SECOND_HOST: ["m1.tiny", "m1.tiny"]})
    held = sorted(operator.read_allocations(server))
    compute.start()
    operator.check_usages({SECOND_HOST: ["m1.tiny", "m1.tiny"]})
    # nova keeps the host down until then.
    wait_for_condition(
        "cleaned up", lambda: operator.read_status_of_newest_migration(server) == "completed", cloud
    )
    cloud.request_compute_api("PUT", f"/os-services/{service}", {"forced_down": False})
    wait_for_condition(
        "up",
        lambda: cloud.read_services_by_host("nova-compute")[FIRST_HOST]["state"] == "up",
        cloud,
    )
    return elsewhere, held, operator.read_host_of_server(server)


def boot_server_on_alternate_host(operator: Operator) -> OperationOutcome:
    mark = operator.cloud.folder / FIRST_HOST / "out_of_order"
    operator.boot_active_server("ballast", f"--host {SECOND_HOST}", "m1.small")
    mark.touch()
    try:
        server = operator.boot_active_server("persistent")
    finally:
        mark.unlink()
    operator.check_usages_of_servers()
    tried = operator.read_host_of_server(server)
    # A successful start resets nova's count of failed starts.
    operator.boot_active_server("healthy", f"--host {FIRST_HOST}")
    return tried


ServerOperation = Callable[[Operator], OperationOutcome]
#: A step of each kind: a boot, a server group, each kind of move, and a retry.
MAIN_SERVER_OPERATIONS: tuple[ServerOperation, ...] = (
    boot_three_servers,
    boot_server_on_named_host,
    boot_servers_of_anti_affinity_group,
    migrate_server,
    live_migrate_server,
    rebuild_server,
    boot_server_on_alternate_host,
    evacuate_server,
)
FURTHER_SERVER_OPERATIONS: tuple[ServerOperation, ...] = (
    boot_server,
    boot_server_larger_than_any_host,
    boot_servers_of_affinity_group,
    boot_servers_with_disabled_host,
    boot_server_in_availability_zone,
    resize_server,
    shelve_and_unshelve_server,
)


def run_server_operations(
    operator: Operator, steps: Iterable[ServerOperation]
) -> Iterator[tuple[str, OperationOutcome]]:
    for step in steps:
        yield step.__name__, _run_server_operation(operator, step)


def _run_server_operation(operator: Operator, step: ServerOperation) -> OperationOutcome:
    try:
        outcome = step(operator)
        operator.delete_all_servers()
    except (AssertionError, OSError):
        failure = traceback.format_exc()
        with suppress(AssertionError, OSError):
            operator.delete_all_servers()
        return f"FAILED: {failure}"
    return outcome


def _wait_for_failed_action(operator: Operator, server: str, action: str) -> str:
    seen: list[str] = []

    def has_failed() -> bool:
        path = f"/servers/{server}/os-instance-actions"
        actions = operator.cloud.request_compute_api("GET", path)["instanceActions"]
        newest = next(one for one in actions if one["action"] == action)
        seen.append(str(newest["message"]))
        return newest["message"] is not None

    wait_for_condition(f"{action} has failed", has_failed, operator.cloud)
    return seen[-1]
