# SPDX-License-Identifier: Apache-2.0
"""Compares a select_destinations call over RabbitMQ with nova-scheduler.

``make bench WHAT=nova_rpc``, or ``python bench/nova_rpc.py --help``. Both schedulers have a worker
and a virtual host of the broker, and read the same databases of nova. openstack-placement, with a
worker, uses the placement database that placement-sched uses itself. Both get the same request
specs in turns, and claim. The claim is deleted after each request.
"""

import signal
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random
from statistics import quantiles
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import harness
import kombu
import os_traits
import services
from load import fill
from services import PEER_PYTHON, PROGRAMS_FOLDER, Request, Server
from sqlalchemy import insert, make_url
from worlds import Book, World, class_id, host_name, uuid_of

from placement_sched.model.clock import utcnow
from tests.conftest import BROKER_URL
from tests.extensions.shadow.agreement import run_peer_job
from tests.nova.cloud.files import write_options
from tests.nova.cloud.processes import Program
from tests.nova.scheduling import Conductor, create_private_bus
from tests.support.nova_clouds import (
    NovaCloud,
    NovaDatabaseFile,
    build_flavor_json,
    build_instance_row,
    build_node_row,
)
from tests.support.servers import wait_until

MIGRATE = Path(__file__).resolve().parents[1] / "tests" / "nova" / "migrate.py"
STORED_FLAVORS, AGGREGATES, GROUPS, INSTANCES_PER_HOST = 30, 50, 100, 10
#: Keys of each instance by table.
METADATA = {"instance_metadata": 2, "instance_system_metadata": 20}
MAX_ROWS = 1000
#: The number of kinds of hosts, which differ in their usage of memory and disk.
HOST_KINDS = 8
#: vCPUs, MB and GB of the flavors, which are used in turn.
FLAVORS = ((1, 2048, 20), (2, 4096, 40), (4, 8192, 80))
#: The version of nova 34.0.0's services. nova-scheduler rejects others.
_NEW_COMPUTE = 74
WARM_UP, LIMIT = 3, 1000
#: The inventories of a host, as in ``tests.support.nova_clouds.build_node_row``.
STOCK = (
    (class_id("VCPU"), 32, 0, 16.0),
    (class_id("MEMORY_MB"), 65536, 512, 1.5),
    (class_id("DISK_GB"), 1000, 0, 1.0),
)
#: The amounts of an instance.
AMOUNTS = {"VCPU": 1, "MEMORY_MB": 2048, "DISK_GB": 20}
#: The traits of a libvirt host.
TRAITS = [
    name
    for prefix in ("COMPUTE_NET_", "COMPUTE_VOLUME_", "COMPUTE_IMAGE_", "HW_CPU_X86_")
    for name in sorted(os_traits.get_traits(prefix))
][:40]


def _list_instances(host: int, hosts: int) -> list[str]:
    """Return the uuids of the instances on a host."""
    return [uuid_of("instance", n) for n in range(host, hosts * INSTANCES_PER_HOST, hosts)]


@dataclass(frozen=True)
class NovaWorld(World):
    """The providers and allocations of a nova."""

    def _add(self, book: Book, number: int, name: str, random: Random) -> None:
        provider = book.provider(uuid_of("host", number), name)
        book.stock(provider, STOCK)
        book.mark(provider, [*TRAITS, "OWNER_NOVA"])
        uses = [(provider, class_id(key), amount) for key, amount in AMOUNTS.items()]
        for instance in _list_instances(number, self.size):
            book.consume(random, uses, instance)


@dataclass
class Scheduler:
    """A scheduler with a bus of its own, and its programs."""

    name: str
    bus: str
    programs: Sequence[Program]
    conductor: Conductor
    hosts: list[str] = field(default_factory=list)
    selection_cpu_seconds: float = 0.0

    def serves(self) -> bool:
        """Return whether the scheduler reads the queue of requests."""
        for program in self.programs:
            if program.process is None or program.process.poll() is not None:
                raise RuntimeError(f"{program.name} ended\n{program.read_log_tail(30)}")
        with kombu.Connection(self.bus.replace("rabbit://", "amqp://")) as connection:
            try:
                queue = connection.default_channel.queue_declare("scheduler", passive=True)
            except connection.channel_errors:
                return False
            return int(queue.consumer_count) > 0

    def cpu_seconds(self) -> float:
        """Return the CPU time of its processes, without the database."""
        return sum(map(services.read_cpu_seconds, self.programs))

    def is_idle(self) -> bool:
        """Return whether its processes use little CPU time for two seconds."""
        before = self.cpu_seconds()
        time.sleep(2)
        return self.cpu_seconds() - before < 0.2

    def select(self, primitive: dict[str, Any], instance: str) -> float:
        """Select a host for an instance, and return milliseconds."""
        data = {**primitive["nova_object.data"], "instance_uuid": instance}
        cpu, start = self.cpu_seconds(), time.perf_counter()
        response = self.conductor.call(
            "select_destinations",
            spec_obj={**primitive, "nova_object.data": data},
            instance_uuids=[instance],
            return_objects=True,
            return_alternates=True,
        )
        ms = (time.perf_counter() - start) * 1000
        self.selection_cpu_seconds += self.cpu_seconds() - cpu
        self.hosts.append(response[0][0]["nova_object.data"]["service_host"])
        return ms

    def cast_instances(self, instances: dict[str, list[str]]) -> None:
        """Send the instances of each host, as nova-compute does every 2 minutes."""
        for host, uuids in instances.items():
            self.conductor.fanout_cast(
                "sync_instance_info", "4.2", host_name=host, instance_uuids=uuids
            )


def _build_cloud(urls: Sequence[str], own: str, hosts: int) -> NovaCloud:
    """Fill nova's databases with hosts and ten instances on each, and the placement database."""
    for kind, url in zip(("api", "main", "main"), urls, strict=True):
        plain = make_url(url)
        if plain.get_backend_name() == "mysql":
            plain = plain.set(query={})
        command = [services.PEER_PYTHON, MIGRATE, kind, services.peer_url(plain), "head"]
        subprocess.run(command, check=True, capture_output=True)
    nova = NovaCloud(urls[0], urls[1])
    cell0, cell = (services.peer_url(make_url(url)) for url in urls[1:])
    nova.api.change("cell_mappings", {"name": "cell0"}, database_connection=cell0)
    nova.add_cell("one", urls[2], connection=cell)
    _fill(nova, hosts)
    fill(own, NovaWorld(hosts))
    return nova


def _fill(nova: NovaCloud, hosts: int) -> None:
    cell = nova.cells["one"]
    names = [host_name(number) for number in range(hosts)]
    old = {"created_at": utcnow() - timedelta(days=9), "deleted": 0}
    old["updated_at"] = utcnow() - timedelta(minutes=30)
    flavors = [
        build_flavor_json(f"m{number}", flavorid=str(number)) for number in range(STORED_FLAVORS)
    ]
    uuids = [uuid_of("instance", number) for number in range(hosts * INSTANCES_PER_HOST)]
    service = {"binary": "nova-compute", "topic": "compute", "report_count": 9}
    service |= {"disabled": False, "forced_down": False, "last_seen_up": utcnow()}
    service["version"] = _NEW_COMPUTE
    rows: dict[str, list[dict[str, Any]]] = {
        "services": [{**service, "uuid": str(uuid4()), "host": name} for name in names],
        "compute_nodes": [
            {**build_node_row(name), **_build_usage(number), "uuid": uuid_of("host", number)}
            for number, name in enumerate(names)
        ],
        "instances": [build_instance_row(uuid, names[at % hosts]) for at, uuid in enumerate(uuids)],
        "instance_extra": [
            {"instance_uuid": uuid, "flavor": flavors[at % STORED_FLAVORS]}
            for at, uuid in enumerate(uuids)
        ],
    }
    for table, count in METADATA.items():
        rows[table] = [
            {"key": f"image_hw_property_{n}", "value": f"value-{n}", "instance_uuid": uuid}
            for n in range(count)
            for uuid in uuids
        ]
    for table, values in rows.items():
        _insert(cell, table, [{**each, **old} for each in values])
    for number in range(AGGREGATES):
        first = number * hosts // AGGREGATES
        members = tuple(names[first : first + hosts // AGGREGATES][:40])
        nova.add_aggregate(f"racks-{number}", members, availability_zone=f"az{number % 3}")
    for number in range(GROUPS):
        group = nova.add_group(f"group-{number}")
        for uuid in uuids[number * 5 : number * 5 + 5]:
            nova.join(group, uuid)
    mapped = [{"host": name, "cell_id": nova.numbers["one"]} for name in names]
    _insert(nova.api, "host_mappings", mapped)


def _build_usage(number: int) -> dict[str, int]:
    """Return the used amounts of a host, which depend on its kind."""
    kind, row = number % HOST_KINDS, build_node_row("")
    usage = {"vcpus_used": kind * 3 or 2, "memory_mb_used": kind * 4096, "local_gb_used": kind * 40}
    usage["free_ram_mb"] = row["memory_mb"] - usage["memory_mb_used"]
    usage["free_disk_gb"] = row["local_gb"] - usage["local_gb_used"]
    return {**usage, "disk_available_least": usage["free_disk_gb"]}


def _insert(file: NovaDatabaseFile, name: str, rows: list[dict[str, Any]]) -> None:
    table = file.tables[name]
    columns = [key for key in rows[0] if key in table.c]
    with file.engine.begin() as connection:
        for first in range(0, len(rows), MAX_ROWS):
            part = [{key: row[key] for key in columns} for row in rows[first : first + MAX_ROWS]]
            connection.execute(insert(table), part)


def _options(name: str, bus: str, urls: Sequence[str], folder: Path) -> dict[str, dict[str, str]]:
    """Return the options that both schedulers have."""
    return {
        "DEFAULT": {
            "host": name,
            "transport_url": bus,
            "state_path": str(folder),
            "use_stderr": "true",
            # No nova-compute runs that would send heartbeats.
            "service_down_time": "86400",
        },
        "api_database": {"connection": services.peer_url(make_url(urls[0]))},
        "database": {"connection": services.peer_url(make_url(urls[2]))},
        "scheduler": {"workers": "1", "max_placement_results": str(LIMIT)},
        "oslo_concurrency": {"lock_path": str(folder / "locks")},
    }


@contextmanager
def _start(databases: harness.Databases, hosts: int) -> Iterator[tuple[Server, list[Scheduler]]]:
    """Give openstack-placement, and nova-scheduler and placement-sched."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="nova-rpc-")))
        *urls, own = [databases.make_empty() for _ in range(4)]
        stack.callback(_build_cloud(urls, own, hosts).close)
        placement = stack.enter_context(services.peer(make_url(own)))
        url = f"http://127.0.0.1:{placement.address.port}"
        login = {"auth_type": "admin_token", "token": "admin", "endpoint": url}
        schedulers = []
        for name, command, more in (
            (
                "nova-scheduler",
                [PEER_PYTHON.parent / "nova-scheduler"],
                {"placement": {**login, "endpoint_override": url}},
            ),
            (
                "placement-sched",
                [PROGRAMS_FOLDER / "placement-sched", "nova-scheduler"],
                {"placement_database": {"connection": own}},
            ),
        ):
            broker = BROKER_URL.replace("amqp://", "rabbit://")
            bus = stack.enter_context(create_private_bus(broker))
            options = {**_options(name, bus, urls, folder), **more}
            conf = write_options(folder / f"{name}.conf", options)
            variables = {"HOME": str(folder)}
            program = Program(name, [*command, "--config-file", conf], folder, variables)
            stack.callback(program.kill)
            program.start()
            programs = [program, placement.program] if name == "nova-scheduler" else [program]
            conductor = Conductor(bus)
            stack.callback(conductor.close)
            schedulers.append(Scheduler(name, bus, programs, conductor))
        yield placement, schedulers


def _wait(condition: Callable[[], bool], text: str) -> None:
    if not wait_until(condition, services.MAX_START, pause=0.2):
        raise TimeoutError(f"not in {services.MAX_START:.0f} s: {text}")
    harness.report_progress(text)


def _prepare(schedulers: Sequence[Scheduler], hosts: int) -> None:
    """Wait until both schedulers are ready and have the instances of all hosts."""
    instances = {host_name(number): _list_instances(number, hosts) for number in range(hosts)}
    for each in schedulers:
        _wait(each.serves, f"{each.name} serves")
        _wait(each.is_idle, f"{each.name} is ready")
    for each in schedulers:
        each.cast_instances(instances)
        _wait(each.is_idle, f"{each.name} has read the instances")


def _build_specs() -> list[dict[str, Any]]:
    """Return the request specs, made by nova."""
    image = {"id": str(uuid4()), "name": "cirros", "status": "active", "disk_format": "raw"}
    image |= {"container_format": "bare", "owner": "demo"}
    properties: dict[str, Any] = {"min_ram": 0, "min_disk": 0, "size": 1, "properties": {}}
    flavor = {"id": 1, "ephemeral_gb": 0, "swap": 0, "rxtx_factor": 1.0, "vcpu_weight": 0}
    flavor |= {"disabled": False, "is_public": True, "extra_specs": {}}
    documents = []
    for vcpus, memory, disk in FLAVORS:
        sizes = {"vcpus": vcpus, "memory_mb": memory, "root_gb": disk}
        name = {"name": f"m{vcpus}", "flavorid": f"m{vcpus}"}
        document = {"flavor": {**flavor, **sizes, **name}, "image": {**image, **properties}}
        documents.append({"uuids": [str(uuid4())], **document})
    specs: list[dict[str, Any]] = run_peer_job("specs", document=documents)
    return specs


def _compare_hosts(schedulers: Sequence[Scheduler], hosts: int) -> str:
    """Return how often both chose the same host, or hosts of the same weight."""
    kinds = {host_name(number): number % HOST_KINDS for number in range(hosts)}
    pairs = list(zip(*(each.hosts[WARM_UP:] for each in schedulers), strict=True))
    same = sum(nova == ours for nova, ours in pairs)
    weight = sum(kinds[nova] == kinds[ours] for nova, ours in pairs)
    return f"first hosts: {same} equal, {weight} of equal weight, of {len(pairs)}"


def _measure(kind: str, databases: harness.Databases, options: Namespace) -> None:
    with _start(databases, options.hosts) as (placement, schedulers):
        _prepare(schedulers, options.hosts)
        specs = _build_specs()

        def select_and_release(scheduler: Scheduler, number: int) -> float:
            instance = str(uuid4())
            ms = scheduler.select(specs[number % len(specs)], instance)
            placement.address.measure(Request("DELETE", f"/allocations/{instance}"), 204)
            return ms

        times = harness.take_turns(
            {
                each.name: lambda number, each=each: select_and_release(each, number)
                for each in schedulers
            },
            options.requests,
            warm_up=WARM_UP,
            clocks={each.name: lambda each=each: each.selection_cpu_seconds for each in schedulers},
        )
        agreement = _compare_hosts(schedulers, options.hosts)
    rows = [(name, t.median, quantiles(t.ms, n=10)[-1], t.cpu_ms) for name, t in times.items()]
    table = harness.build_table(("scheduler", "median ms", "p90 ms", "CPU ms"), rows)
    ratio, _, cpu = harness.compare(times["placement-sched"], times["nova-scheduler"])
    title = f"{kind}: {options.hosts} hosts, {INSTANCES_PER_HOST} instances on each"
    note = f"ratio {ratio:.1f}, of CPU {cpu:.1f}; {agreement}"
    print(harness.build_section(title, table, note), flush=True)


def main() -> int:
    """Compare the schedulers on each database."""
    parser = harness.Options(__doc__, "mariadb")
    parser.add_sized("--hosts", 10_000, 500, "hosts")
    parser.add_sized("--requests", 30, 10, "requests to each scheduler")
    options = parser.parse()
    # A signal must end the programs and drop the databases.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    return harness.run_on_databases(
        options, lambda kind, databases: _measure(kind, databases, options)
    )


if __name__ == "__main__":
    sys.exit(main())
