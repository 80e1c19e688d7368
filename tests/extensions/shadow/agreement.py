# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.extensions.shadow.agreement``: a nova-scheduler and its shadow.

A nova-scheduler (of the peer environment) places random requests on a cloud with nova's tables and
with ``placement-sched serve`` as placement. ``placement-sched nova-shadow`` evaluates the same
requests. This module does the work of conductor and computes: the calls, the records of failed and
placed instances, and the usage of their hosts. It prints the shadow's report.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import uuid4

from sqlalchemy import make_url, select

from placement_sched.db.transaction import Connection, Database
from placement_sched.extensions.shadow import store
from placement_sched.extensions.shadow.comparison import build_report, format_report
from placement_sched.model import shadow_result
from placement_sched.model.clock import utcnow
from placement_sched.model.provider import Inventory
from placement_sched.store.placement import (
    aggregates,
    allocations,
    inventories,
    resource_providers,
    traits,
)
from placement_sched.store.placement.resource_providers import NewProvider
from tests.conftest import make_settings
from tests.differential.comparison import PEER_PYTHON, skip_without_peer
from tests.extensions.shadow.random_requests import GPU_TRAIT, SSD_TRAIT, RequestGenerator
from tests.nova.cloud.processes import Program
from tests.nova.cloud.rabbitmq import run_private_rabbitmq
from tests.nova.scheduling import OSLO_MESSAGING, Conductor, list_selected_hosts
from tests.support.empty_databases import empty_database
from tests.support.nova_clouds import NovaCloud
from tests.support.servers import PROGRAMS_FOLDER, serve_database, wait_until

JOBS_PROGRAM = Path(__file__).parent / "peer" / "jobs.py"
ENABLED_FILTERS = (
    *("ComputeFilter", "ComputeCapabilitiesFilter", "ImagePropertiesFilter"),
    *("ServerGroupAntiAffinityFilter", "ServerGroupAffinityFilter"),
    *("SameHostFilter", "DifferentHostFilter", "AggregateInstanceExtraSpecsFilter"),
)
#: Version of a nova-compute of any newer release.
_NEWER_SERVICE_VERSION = 100
#: Number of requests that are drawn at once. Later requests name the instances of earlier batches.
REQUESTS_PER_BATCH = 25


@dataclass(eq=False)
class ShadowCloud:
    """The running cloud and a conductor."""

    nova: NovaCloud
    database: Database
    request_generator: RequestGenerator
    conductor: Conductor
    node_uuids: dict[str, str] = field(default_factory=dict)
    free: dict[str, dict[str, int]] = field(default_factory=dict)
    flavors: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)

    def add_hosts(self) -> None:
        zones: dict[str, list[str]] = {}
        fast = []
        stock: dict[str, dict[str, Any]] = {}
        for name in self.request_generator.hosts:
            host = self.request_generator.draw_host(name)
            vcpus, memory, disk = host["size"]
            self.free[name] = {"vcpus": vcpus, "memory_mb": memory, "local_gb": disk}
            self.node_uuids[name] = self.nova.add_host(
                name,
                **{**self.free[name], **self._compute_usage(name, 0, 0, 0)},
                pci_stats=None,
                numa_topology=None,
                cpu_allocation_ratio=4.0,
                ram_allocation_ratio=1.0,
                disk_allocation_ratio=1.0,
            )
            stock[name] = host
            if host["zone"]:
                zones.setdefault(host["zone"], []).append(name)
            if host["fast"]:
                fast.append(name)
        # nova-scheduler does not start with computes that are too old.
        cell = self.nova.cells["one"]
        cell.change("services", {"binary": "nova-compute"}, version=_NEWER_SERVICE_VERSION)
        members = {
            self.nova.add_aggregate(zone, tuple(hosts), availability_zone=zone): hosts
            for zone, hosts in zones.items()
        }
        members[self.nova.add_aggregate("fast", tuple(fast), fast="true")] = fast
        table = self.nova.api.tables["aggregates"]
        with self.nova.api.engine.connect() as connection:
            uuids = dict(map(tuple, connection.execute(select(table.c.id, table.c.uuid))))
        of_host = {
            name: [uuids[number] for number, hosts in members.items() if name in hosts]
            for name in stock
        }
        self.database.write(lambda connection: self._create_providers(connection, stock, of_host))

    def _create_providers(
        self, connection: Connection, hosts: Mapping[str, Any], of_host: Mapping[str, list[str]]
    ) -> None:
        rows = [NewProvider(self.node_uuids[name], name) for name in hosts]
        ids = resource_providers.create_many(connection, rows, utcnow())
        for name in (SSD_TRAIT, GPU_TRAIT):
            traits.ensure(connection, name, utcnow())
        by_id = {}
        for name, host in hosts.items():
            vcpus, memory, disk = host["size"]
            by_id[ids[self.node_uuids[name]]] = [
                Inventory(resource_class="VCPU", total=vcpus, allocation_ratio=4.0, max_unit=vcpus),
                Inventory(resource_class="MEMORY_MB", total=memory, max_unit=memory),
                Inventory(resource_class="DISK_GB", total=disk, max_unit=disk),
            ]
        inventories.put(connection, by_id, utcnow())
        for name, host in hosts.items():
            key = ids[self.node_uuids[name]]
            # nova-compute marks each of its hosts as nova's.
            trait_names = [*host["traits"], "OWNER_NOVA"]
            trait_ids = [trait.id for trait in traits.list_by_names(connection, trait_names)]
            traits.replace(connection, key, (), trait_ids, utcnow())
            aggregates.replace(connection, key, of_host[name], utcnow())

    def _compute_usage(self, host: str, vcpus: int, memory: int, disk: int) -> dict[str, Any]:
        total = self.free[host]
        return {
            "vcpus_used": vcpus,
            "memory_mb_used": memory,
            "local_gb_used": disk,
            "free_ram_mb": total["memory_mb"] - memory,
            "free_disk_gb": total["local_gb"] - disk,
            "disk_available_least": total["local_gb"] - disk,
            "running_vms": 0,
            "stats": "{}",
        }

    def place_request(self, described: dict[str, Any], primitive: dict[str, Any]) -> None:
        uuids, request = described["uuids"], f"req-{uuid4()}"
        hosts = self._select_hosts(primitive, uuids, request)
        # Real computes record an instance only after the shadow has evaluated the request.
        assert wait_until(lambda: self._is_evaluated(uuids)), f"{request} was not evaluated"
        if hosts is None:
            for uuid in uuids:
                self._record_in_cell0(uuid)
            return
        for uuid, host in zip(uuids, hosts, strict=True):
            self.nova.add_instance(host, uuid=uuid)
            self.flavors[uuid] = host, described["flavor"]
            self.request_generator.record_placement(uuid, host)
        for host in set(hosts):
            self._update_usage_of_host(host)

    def _select_hosts(
        self, primitive: dict[str, Any], uuids: list[str], request: str
    ) -> list[str] | None:
        context = {"request_id": request, "user_id": "ann", "project_id": "demo", "is_admin": True}
        sent = {"spec_obj": primitive, "instance_uuids": uuids, "return_alternates": True}
        try:
            result = self.conductor.call(
                "select_destinations", return_objects=True, **sent, **context
            )
        except OSLO_MESSAGING.RemoteError as failure:
            if failure.exc_type != "NoValidHost":
                raise
            return None
        return list_selected_hosts(result)

    def is_scheduler_responding(self) -> bool:
        try:
            ping = {"namespace": "baseapi", "arg": "there", "timeout": 5}
            return bool(self.conductor.call("ping", "1.1", **ping))
        except OSLO_MESSAGING.MessagingTimeout:
            return False

    def remove_instance(self) -> None:
        uuid = self.request_generator.remove_placement()
        if uuid is None:
            return
        host, _ = self.flavors.pop(uuid)
        self.nova.cells["one"].delete_softly("instances", uuid=uuid)
        self.database.write(lambda connection: allocations.remove(connection, [uuid]))
        self._update_usage_of_host(host)

    def has_no_pending_results(self) -> bool:
        with self.database.read() as connection:
            return not store.list_pending(connection)

    def list_pending_results(self) -> list[Any]:
        with self.database.read() as connection:
            return list(store.list_pending(connection))

    def read_report(self) -> dict[str, Any]:
        with self.database.read() as connection:
            return build_report(store.list_since(connection, None))

    def _is_evaluated(self, uuids: list[str]) -> bool:
        with self.database.read() as connection:
            rows = store.list_since(connection, None)
            return {row.instance for row in rows}.issuperset(uuids)

    def _record_in_cell0(self, uuid: str) -> None:
        self.nova.cell0.add(
            "instances", uuid=uuid, vm_state="error", project_id="demo", user_id="ann"
        )
        first = {"instance_uuid": uuid, "cell_id": 1, "project_id": "demo"}
        self.nova.api.add("instance_mappings", **first, queued_for_delete=False)

    def _update_usage_of_host(self, host: str) -> None:
        flavors = [flavor for place, flavor in self.flavors.values() if place == host]
        used = [
            sum(flavor[name] for flavor in flavors) for name in ("vcpus", "memory_mb", "root_gb")
        ]
        figures = {**self._compute_usage(host, *used), "running_vms": len(flavors)}
        stats = json.dumps({"num_instances": str(len(flavors)), "io_workload": "0"})
        self.nova.cells["one"].change(
            "compute_nodes", {"host": host}, **{**figures, "stats": stats}
        )


@contextmanager
def run_shadow_cloud(folder: Path, *, hosts: int, seed: int) -> Iterator[ShadowCloud]:
    skip_without_peer()
    with ExitStack() as stack:
        broker = stack.enter_context(run_private_rabbitmq(folder / "rabbitmq"))
        urls = [stack.enter_context(empty_database("mysql", folder)) for _ in range(4)]
        written = [make_url(url).render_as_string(hide_password=False) for url in urls]
        run_peer_job("tables", *written[:3])
        nova = NovaCloud(written[0], written[1])
        stack.callback(nova.close)
        nova.add_cell("one", written[2])
        own = {"connection": written[3], "sync_on_startup": "true"}
        server = stack.enter_context(serve_database(folder, written[3]))
        database = Database(make_settings(written[3]))
        stack.callback(database.dispose)
        broker.wait_until_ready()
        conductor = Conductor(broker.url)
        stack.callback(conductor.close)
        cloud = ShadowCloud(nova, database, RequestGenerator(seed, hosts), conductor)
        cloud.add_hosts()
        nova_conf = folder / "nova.conf"
        nova_conf.write_text(_format_nova_conf(folder, broker.url, written, server.url))
        own_conf = folder / "own.conf"
        own_conf.write_text("[placement_database]\n" + _format_config_lines(own))
        theirs = Program(
            "nova-scheduler",
            [PEER_PYTHON.parent / "nova-scheduler", "--config-file", nova_conf],
            folder,
            {"HOME": str(folder)},
        )
        files = ("--config-file", nova_conf, "--config-file", own_conf)
        ours = Program(
            "nova-shadow", [PROGRAMS_FOLDER / "placement-sched", "nova-shadow", *files], folder
        )
        for program in (theirs, ours):
            stack.callback(program.kill)
            program.start()
        start_line = "placement-sched nova-shadow reads queue"
        assert wait_until(lambda: start_line in ours.log.read_text(), 120), ours.read_log_tail(30)
        assert wait_until(cloud.is_scheduler_responding, 120), theirs.read_log_tail(30)
        try:
            yield cloud
        except Exception:
            sys.stderr.write(f"{theirs.read_log_tail(30)}\n{ours.read_log_tail(30)}\n")
            raise
        assert ours.stop() == 0, ours.read_log_tail(30)


def run_peer_job(*arguments: str, document: Any = None) -> Any:
    text = None if document is None else json.dumps(document)
    done = subprocess.run(
        [PEER_PYTHON, JOBS_PROGRAM, *arguments],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout) if done.stdout else None


def compare_requests(cloud: ShadowCloud, requests: int) -> dict[str, Any]:
    left = requests
    while left:
        batch = [
            cloud.request_generator.draw_request() for _ in range(min(REQUESTS_PER_BATCH, left))
        ]
        for described, primitive in zip(batch, run_peer_job("specs", document=batch), strict=True):
            cloud.place_request(described, primitive)
        # A removed instance cannot be compared, so the shadow must have seen its host.
        assert wait_until(cloud.has_no_pending_results, 120), (
            f"the shadow still waits: {cloud.list_pending_results()}"
        )
        # Instances are removed between the batches, since conductor names no deleted instance.
        for _ in range(len(cloud.flavors) - 2 * len(cloud.request_generator.hosts)):
            cloud.remove_instance()
        left -= len(batch)
    assert wait_until(cloud.has_no_pending_results, 60), "the shadow still waits for some requests"
    return cloud.read_report()


def _format_nova_conf(folder: Path, broker: str, urls: list[str], server: str) -> str:
    groups = {
        "DEFAULT": {
            "host": "control",
            "transport_url": broker,
            "state_path": str(folder),
            "service_down_time": "86400",
            "use_stderr": "true",
        },
        "api_database": {"connection": urls[0]},
        "database": {"connection": urls[2]},
        "placement": {
            "auth_type": "admin_token",
            "token": "admin",
            "endpoint": f"{server}/placement",
            "endpoint_override": f"{server}/placement",
        },
        "scheduler": {"workers": "1", "nova_sync_interval": "1"},
        "filter_scheduler": {"enabled_filters": ",".join(ENABLED_FILTERS)},
        "oslo_concurrency": {"lock_path": str(folder / "locks")},
    }
    return "".join(
        f"[{group}]\n{_format_config_lines(options)}" for group, options in groups.items()
    )


def _format_config_lines(options: Mapping[str, str]) -> str:
    return "".join(f"{name} = {value}\n" for name, value in options.items())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.extensions.shadow.agreement")
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--hosts", type=int, default=40)
    parser.add_argument("--seed", type=int, default=20261122)
    chosen = parser.parse_args()
    # The context managers stop all programs after SIGTERM, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with (
        tempfile.TemporaryDirectory(prefix="shadow-") as folder,
        run_shadow_cloud(Path(folder), hosts=chosen.hosts, seed=chosen.seed) as cloud,
    ):
        began = monotonic()
        report = compare_requests(cloud, chosen.requests)
        seconds = monotonic() - began
    sys.stdout.writelines(f"{line}\n" for line in format_report(report))
    sys.stdout.write(f"\n{seconds:.0f} s, seed {chosen.seed}\n")
    disagreeing = sum(report["verdicts"].get(one, 0) for one in shadow_result.DISAGREEING)
    return 1 if disagreeing else 0


if __name__ == "__main__":
    sys.exit(main())
