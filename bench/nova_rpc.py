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
from services import BIN, PEER_PYTHON, Request, Server
from sqlalchemy import case, insert, make_url, select, update
from worlds import Book, World, class_id, random_uuid

from placement_sched.model.clock import utcnow
from tests.conftest import BROKER
from tests.nova.cloud.files import write_options
from tests.nova.cloud.processes import Program
from tests.nova.scheduling import Conductor, private_bus
from tests.nova.shadow.agreement import run_peer_job
from tests.support.nova_clouds import (
    NovaCloud,
    NovaDatabaseFile,
    build_flavor_json,
    instance_row,
    node_row,
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
#: The inventories of a host, as in ``tests.support.nova_clouds.node_row``.
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


@dataclass(frozen=True)
class NovaWorld(World):
    """The providers and allocations of a nova."""

    #: Host and uuid of each compute node, and the uuids of the instances.
    nodes: tuple[tuple[str, str], ...] = ()
    instances: tuple[str, ...] = ()

    def _add(self, book: Book, number: int, _name: str, random: Random) -> None:
        host, uuid = self.nodes[number]
        provider = book.provider(uuid, host)
        book.stock(provider, STOCK)
        book.mark(provider, [*TRAITS, "OWNER_NOVA"])
        uses = [(provider, class_id(name), amount) for name, amount in AMOUNTS.items()]
        for instance in self.instances[number :: len(self.nodes)]:
            book.consume(random, uses, instance)


@dataclass
class Scheduler:
    """A scheduler with a bus of its own, and its programs."""

    name: str
    bus: str
    programs: Sequence[Program]
    conductor: Conductor
    hosts: list[str] = field(default_factory=list)
    #: The CPU seconds of all selections.
    spent: float = 0.0

    def serves(self) -> bool:
        """Return whether the scheduler reads the queue of requests."""
        for program in self.programs:
            if program.process is None or program.process.poll() is not None:
                raise RuntimeError(f"{program.name} ended\n{program.last_lines(30)}")
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
        answer = self.conductor.call(
            "select_destinations",
            spec_obj={**primitive, "nova_object.data": data},
            instance_uuids=[instance],
            return_objects=True,
            return_alternates=True,
        )
        ms = (time.perf_counter() - start) * 1000
        self.spent += self.cpu_seconds() - cpu
        self.hosts.append(answer[0][0]["nova_object.data"]["service_host"])
        return ms

    def announce(self, instances: dict[str, list[str]]) -> None:
        """Send the instances of each host, as nova-compute does every 2 minutes."""
        for host, uuids in instances.items():
            self.conductor.announce(
                "sync_instance_info", "4.2", host_name=host, instance_uuids=uuids
            )


def _build_nova(urls: Sequence[str], hosts: int) -> NovaCloud:
    """Fill three empty databases with a nova of hosts and ten instances on each."""
    for kind, url in zip(("api", "main", "main"), urls, strict=True):
        plain = make_url(url)
        if plain.get_backend_name() == "mysql":
            plain = plain.set(query={})
        command = [services.PEER_PYTHON, MIGRATE, kind, services.peer_url(plain), "head"]
        subprocess.run(command, check=True, capture_output=True)
    nova = NovaCloud(urls[0], urls[1])
    nova.add_cell("one", urls[2])
    _fill(nova, hosts)
    return nova


def _fill(nova: NovaCloud, hosts: int) -> None:
    random, cell = Random(3), nova.cells["one"]
    names = [f"cn{number:05}" for number in range(hosts)]
    born = {"created_at": utcnow() - timedelta(days=9), "deleted": 0}
    old = {**born, "updated_at": utcnow() - timedelta(minutes=30)}
    flavors = [
        build_flavor_json(f"m{number}", flavorid=str(number)) for number in range(STORED_FLAVORS)
    ]
    uuids = [random_uuid(random) for _ in range(hosts * INSTANCES_PER_HOST)]
    service = {"binary": "nova-compute", "topic": "compute", "report_count": 9, "version": 66}
    service |= {"disabled": False, "forced_down": False, "last_seen_up": utcnow()}
    rows: dict[str, list[dict[str, Any]]] = {
        "services": [{**service, "uuid": random_uuid(random), "host": name} for name in names],
        "compute_nodes": [{**node_row(name), "uuid": random_uuid(random)} for name in names],
        "instances": [instance_row(uuid, names[at % hosts]) for at, uuid in enumerate(uuids)],
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
        stamps = born if table in METADATA else old
        _insert(cell, table, [{**each, **stamps} for each in values])
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


def _insert(file: NovaDatabaseFile, name: str, rows: list[dict[str, Any]]) -> None:
    table = file.tables[name]
    columns = [key for key in rows[0] if key in table.c]
    with file.engine.begin() as connection:
        for first in range(0, len(rows), MAX_ROWS):
            part = [{key: row[key] for key in columns} for row in rows[first : first + MAX_ROWS]]
            connection.execute(insert(table), part)


def _read(nova: NovaCloud, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """Return columns of all rows of a table of the cell."""
    cell = nova.cells["one"]
    fields = [cell.tables[table].c[name] for name in columns]
    with cell.engine.connect() as connection:
        rows = connection.execute(select(*fields).order_by(cell.tables[table].c.id))
        return [tuple(row) for row in rows]


def _vary_hosts(nova: NovaCloud) -> None:
    """Let the hosts use different amounts of memory and disk."""
    table = nova.cells["one"].tables["compute_nodes"]
    kind = table.c.id % HOST_KINDS
    values = {"memory_mb_used": kind * 4096, "local_gb_used": kind * 40}
    values["free_ram_mb"] = table.c.memory_mb - kind * 4096
    values["free_disk_gb"] = table.c.local_gb - kind * 40
    values["disk_available_least"] = table.c.local_gb - kind * 40
    values["vcpus_used"] = case((kind == 0, 2), else_=kind * 3)
    with nova.cells["one"].engine.begin() as connection:
        connection.execute(update(table).values(values))


def _build_cloud(urls: Sequence[str], own: str, hosts: int) -> NovaCloud:
    """Fill nova's databases and the placement database."""
    nova = _build_nova(urls, hosts)
    for name, url in (("cell0", urls[1]), ("one", urls[2])):
        connection = services.peer_url(make_url(url))
        nova.api.change("cell_mappings", {"name": name}, database_connection=connection)
    values = {"version": _NEW_COMPUTE, "last_seen_up": utcnow()}
    nova.cells["one"].change("services", {"binary": "nova-compute"}, **values)
    _vary_hosts(nova)
    nodes = tuple(_read(nova, "compute_nodes", "host", "uuid"))
    instances = tuple(uuid for (uuid,) in _read(nova, "instances", "uuid"))
    fill(own, NovaWorld(hosts, nodes=nodes, instances=instances))
    return nova


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
def _start(
    databases: harness.Databases, hosts: int
) -> Iterator[tuple[NovaCloud, Server, list[Scheduler]]]:
    """Give the cloud, openstack-placement, and nova-scheduler and placement-sched."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="nova-rpc-")))
        *urls, own = [databases.make_empty() for _ in range(4)]
        nova = _build_cloud(urls, own, hosts)
        stack.callback(nova.close)
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
                [BIN / "placement-sched", "nova-scheduler"],
                {"placement_database": {"connection": own}},
            ),
        ):
            bus = stack.enter_context(private_bus(BROKER.replace("amqp://", "rabbit://")))
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
        yield nova, placement, schedulers


def _wait(condition: Callable[[], bool], text: str) -> None:
    if not wait_until(condition, services.MAX_START, pause=0.2):
        raise TimeoutError(f"not in {services.MAX_START:.0f} s: {text}")
    harness.report_progress(text)


def _prepare(nova: NovaCloud, schedulers: Sequence[Scheduler]) -> None:
    """Wait until both schedulers are ready and have the instances of all hosts."""
    instances: dict[str, list[str]] = {}
    for host, uuid in _read(nova, "instances", "host", "uuid"):
        instances.setdefault(host, []).append(uuid)
    for each in schedulers:
        _wait(each.serves, f"{each.name} serves")
        _wait(each.is_idle, f"{each.name} is ready")
    for each in schedulers:
        each.announce(instances)
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
    specs: list[dict[str, Any]] = run_peer_job("specs", given=documents)
    return specs


def _compare_hosts(nova: NovaCloud, schedulers: Sequence[Scheduler]) -> str:
    """Return how often both chose the same host, or hosts of the same weight."""
    columns = ("host", "free_ram_mb", "free_disk_gb", "vcpus_used")
    values = {host: rest for host, *rest in _read(nova, "compute_nodes", *columns)}
    pairs = list(zip(*(each.hosts[WARM_UP:] for each in schedulers), strict=True))
    same = sum(one == other for one, other in pairs)
    weight = sum(values[one] == values[other] for one, other in pairs)
    return f"first hosts: {same} equal, {weight} of equal weight, of {len(pairs)}"


def _measure(kind: str, databases: harness.Databases, options: Namespace) -> None:
    with _start(databases, options.hosts) as (nova, placement, schedulers):
        _prepare(nova, schedulers)
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
            clocks={each.name: lambda each=each: each.spent for each in schedulers},
        )
        agreement = _compare_hosts(nova, schedulers)
    rows = [(name, t.median, quantiles(t.ms, n=10)[-1], t.cpu_ms) for name, t in times.items()]
    table = harness.build_table(("scheduler", "median ms", "p90 ms", "CPU ms"), rows)
    ratio, _, cpu = harness.compare(times["placement-sched"], times["nova-scheduler"])
    title = f"{kind}: {options.hosts} hosts, {INSTANCES_PER_HOST} instances on each"
    note = f"ratio {ratio:.1f}, of CPU {cpu:.1f}; {agreement}"
    print(harness.build_section(title, table, note), flush=True)


def main() -> int:
    """Compare the schedulers on each database."""
    parser = harness.Options(__doc__, default_databases="mariadb")
    parser.add_sized("--hosts", 10_000, 500, "hosts")
    parser.add_sized("--requests", 30, 10, "requests to each scheduler")
    options = parser.parse()
    services.require_peer()
    # A signal must end the programs and drop the databases.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    return harness.run_on_databases(
        options, lambda kind, databases: _measure(kind, databases, options)
    )


if __name__ == "__main__":
    sys.exit(main())
