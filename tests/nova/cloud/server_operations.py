# SPDX-License-Identifier: Apache-2.0
"""Operations on servers, whose outcomes are the same with every scheduler."""

import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

from tests.nova.cloud.cloud import HOSTS, wait_for_condition
from tests.nova.cloud.operator_commands import Operator

CN1, CN2 = HOSTS
#: Outcome of a step: facts that do not depend on a random choice between equal hosts.
Outcome = Any


def boot_server(operator: Operator) -> Outcome:
    server = operator.wait_for_status(operator.request_boot("one"), "ACTIVE")
    operator.check_usages_of_servers()
    return server["OS-EXT-AZ:availability_zone"]


def boot_three_servers(operator: Operator) -> Outcome:
    operator.request_boot("many", "--min 3 --max 3")
    servers = operator.servers()
    for server in servers:
        operator.wait_for_status(server["id"], "ACTIVE")
    operator.check_usages_of_servers()
    return sorted(Counter(operator.host(one["id"]) for one in servers).values())


def boot_without_valid_host(operator: Operator) -> Outcome:
    server = operator.request_boot("giant", flavor="m1.giant")
    fault = operator.wait_for_fault(server)
    assert operator.read_allocations(server) == {}
    return fault


def boot_on_named_host(operator: Operator) -> Outcome:
    forced = operator.boot_active_server("forced", f"--availability-zone nova:{CN1}")
    chosen = operator.boot_active_server("asked", f"--host {CN2}")
    too_large = operator.request_boot("giant", f"--host {CN1}", "m1.giant")
    fault = operator.wait_for_fault(too_large)
    operator.check_usages_of_servers()
    return operator.host(forced), operator.host(chosen), fault


def boot_anti_affinity_group(operator: Operator) -> Outcome:
    group = operator.show("server group create --policy anti-affinity apart")["id"]
    hosts = {
        operator.host(operator.boot_active_server(name, f"--hint group={group}")) for name in "ab"
    }
    third = operator.request_boot("c", f"--hint group={group}")
    fault = operator.wait_for_fault(third)
    operator.check_usages_of_servers()
    return sorted(map(str, hosts)), fault


def boot_affinity_group(operator: Operator) -> Outcome:
    group = operator.show("server group create --policy affinity together")["id"]
    hosts = {
        operator.host(operator.boot_active_server(name, f"--hint group={group}")) for name in "ab"
    }
    operator.check_usages_of_servers()
    return len(hosts)


def boot_with_disabled_host(operator: Operator) -> Outcome:
    operator.run(f"compute service set --disable {CN1} nova-compute")
    wait_for_condition("disabled", lambda: operator.is_disabled_in_placement(CN1), operator.cloud)
    hosts = [operator.host(operator.boot_active_server(name)) for name in "ab"]
    fault = operator.wait_for_fault(operator.request_boot("c", f"--host {CN1}"))
    operator.run(f"compute service set --enable {CN1} nova-compute")
    wait_for_condition(
        "enabled", lambda: not operator.is_disabled_in_placement(CN1), operator.cloud
    )
    again = operator.host(operator.boot_active_server("d"))
    operator.check_usages_of_servers()
    return hosts, fault, again


def boot_in_zone(operator: Operator) -> Outcome:
    operator.run("aggregate create --zone north racks")
    operator.run(f"aggregate add host racks {CN2}")
    server = operator.boot_active_server("north", "--availability-zone north")
    document = operator.server(server)
    other = operator.host(operator.boot_active_server("south", "--availability-zone nova"))
    operator.check_usages_of_servers()
    operator.delete_all()
    operator.run(f"aggregate remove host racks {CN2}")
    operator.run("aggregate delete racks")
    return document["OS-EXT-SRV-ATTR:host"], document["OS-EXT-AZ:availability_zone"], other


def migrate_server(operator: Operator) -> Outcome:
    server = operator.boot_active_server("walker", f"--availability-zone nova:{CN1}")
    operator.run(f"server migrate {server}")
    operator.wait_for_status(server, "VERIFY_RESIZE")
    operator.check_usages({CN1: ["m1.tiny"], CN2: ["m1.tiny"]})
    operator.run(f"server migration confirm {server}")
    operator.wait_for_status(server, "ACTIVE")
    confirmed = operator.host(server)
    operator.check_usages_of_servers()
    operator.run(f"server migrate {server}")
    operator.wait_for_status(server, "VERIFY_RESIZE")
    operator.run(f"server migration revert {server}")
    operator.wait_for_status(server, "ACTIVE")
    operator.check_usages_of_servers()
    return confirmed, operator.host(server)


def live_migrate_server(operator: Operator) -> Outcome:
    server = operator.boot_active_server("runner", f"--availability-zone nova:{CN1}")
    operator.run(f"server migrate --live-migration {server}")
    operator.wait_for_host(server, CN2)
    operator.check_usages_of_servers()
    operator.run(f"server migrate --live-migration --host {CN1} {server}")
    operator.wait_for_host(server, CN1)
    operator.check_usages_of_servers()
    return operator.host(server)


def resize_server(operator: Operator) -> Outcome:
    server = operator.boot_active_server("grower", f"--availability-zone nova:{CN1}")
    operator.run(f"server resize --flavor m1.small {server}")
    operator.wait_for_status(server, "VERIFY_RESIZE")
    operator.check_usages({CN1: ["m1.tiny"], CN2: ["m1.small"]})
    operator.run(f"server resize confirm {server}")
    document = operator.wait_for_status(server, "ACTIVE")
    operator.check_usages_of_servers()
    operator.run(f"server resize --flavor m1.giant {server}")
    event = _wait_for_failed_action(operator, server, "resize")
    after = operator.wait_for_status(server, "ACTIVE")
    operator.check_usages_of_servers()
    return document["OS-EXT-SRV-ATTR:host"], event, after["flavor"]["original_name"]


def shelve_and_unshelve_server(operator: Operator) -> Outcome:
    server = operator.boot_active_server("sleeper")
    operator.run(f"server shelve {server}")
    operator.wait_for_status(server, "SHELVED_OFFLOADED")
    operator.check_usages({})
    operator.run(f"server unshelve {server}")
    operator.wait_for_status(server, "ACTIVE")
    operator.check_usages_of_servers()
    operator.run(f"server shelve {server}")
    operator.wait_for_status(server, "SHELVED_OFFLOADED")
    operator.run(f"server unshelve --host {CN2} {server}")
    operator.wait_for_status(server, "ACTIVE")
    operator.check_usages_of_servers()
    return operator.host(server)


def rebuild_server(operator: Operator) -> Outcome:
    server = operator.boot_active_server("phoenix", f"--availability-zone nova:{CN1}")
    operator.run(f"server rebuild --image ubuntu {server}")
    operator.wait_for_status(server, "ACTIVE")
    image = operator.server(server)["image"]["id"]
    name = operator.show(f"image show {image}")["name"]
    operator.check_usages_of_servers()
    operator.run(f"server rebuild --image power {server}")
    fault = operator.wait_for_fault(server)
    operator.check_usages_of_servers()
    return name, operator.host(server), fault


def evacuate_server(operator: Operator) -> Outcome:
    cloud, compute = operator.cloud, operator.cloud.computes[CN1]
    server = operator.boot_active_server("refugee", f"--availability-zone nova:{CN1}")
    compute.kill()
    service = cloud.services("nova-compute")[CN1]["id"]
    cloud.request_compute_api("PUT", f"/os-services/{service}", {"forced_down": True})
    elsewhere = operator.host(operator.boot_active_server("bystander"))
    operator.run(f"server evacuate {server}")
    # The server stays stopped since 2.95.
    operator.wait_for_host(server, CN2, "SHUTOFF")
    operator.check_usages({CN1: ["m1.tiny"], CN2: ["m1.tiny", "m1.tiny"]})
    held = sorted(operator.read_allocations(server))
    compute.start()
    operator.check_usages({CN2: ["m1.tiny", "m1.tiny"]})
    # nova keeps the host down until then.
    wait_for_condition(
        "cleaned up", lambda: operator.read_status_of_newest_migration(server) == "completed", cloud
    )
    cloud.request_compute_api("PUT", f"/os-services/{service}", {"forced_down": False})
    wait_for_condition("up", lambda: cloud.services("nova-compute")[CN1]["state"] == "up", cloud)
    return elsewhere, held, operator.host(server)


def boot_on_alternate_host(operator: Operator) -> Outcome:
    mark = operator.cloud.folder / CN1 / "out_of_order"
    operator.boot_active_server("ballast", f"--host {CN2}", "m1.small")
    mark.touch()
    try:
        server = operator.boot_active_server("persistent")
    finally:
        mark.unlink()
    operator.check_usages_of_servers()
    tried = operator.host(server)
    # A successful start resets nova's count of failed starts.
    operator.boot_active_server("healthy", f"--host {CN1}")
    return tried


Step = Callable[[Operator], Outcome]
#: A step of each kind: a boot, a server group, each kind of move, and a retry.
MAIN_STEPS: tuple[Step, ...] = (
    boot_three_servers,
    boot_on_named_host,
    boot_anti_affinity_group,
    migrate_server,
    live_migrate_server,
    rebuild_server,
    boot_on_alternate_host,
    evacuate_server,
)
FURTHER_STEPS: tuple[Step, ...] = (
    boot_server,
    boot_without_valid_host,
    boot_affinity_group,
    boot_with_disabled_host,
    boot_in_zone,
    resize_server,
    shelve_and_unshelve_server,
)


def run_steps(operator: Operator, steps: Iterable[Step]) -> Iterator[tuple[str, Outcome]]:
    for step in steps:
        yield step.__name__, _run_step(operator, step)


def _run_step(operator: Operator, step: Step) -> Outcome:
    try:
        outcome = step(operator)
        operator.delete_all()
    except (AssertionError, OSError):
        failure = traceback.format_exc()
        with suppress(AssertionError, OSError):
            operator.delete_all()
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
