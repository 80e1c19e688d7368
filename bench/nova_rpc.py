# SPDX-License-Identifier: Apache-2.0
"""Races an RPC select of a host: nova-scheduler with OpenStack's placement, by our service.

``make bench WHAT=nova_rpc``, or ``python -m bench.nova_rpc --help``. Both schedulers have one
worker and a bus of their own, and read the same nova's databases; OpenStack's placement 16, under
uwsgi with one worker, stands before the placement database in which our service looks for itself.
Each is sent the same RequestSpecs in turns, and claims; what was claimed is deleted between two
requests.
"""

import argparse
import os
import shlex
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import kombu
from sqlalchemy import case, make_url, select, update

from bench import nova_placement
from bench.nova_reading import KINDS, rows
from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.operations.prepare import sync
from tests.conftest import BROKER, make_settings
from tests.differential.duel import PEER_PYTHON
from tests.nova.cloud.files import write_options
from tests.nova.cloud.processes import Program
from tests.nova.scheduling import Conductor, private_bus
from tests.nova.shadow.agreement import run_peer_job
from tests.support.empty_databases import empty_database
from tests.support.loopback import reserve_port
from tests.support.nova_clouds import NovaCloud
from tests.support.servers import BIN

#: Memory and disk in use differ by so many kinds of hosts, so that some are better than others.
HOST_KINDS = 8
#: vCPUs, MB and GB of the flavors that are asked for in turn.
FLAVORS = ((1, 2048, 20), (2, 4096, 40), (4, 8192, 80))
#: The version of nova 34.0.0's own services: older ones, and newer, are refused.
_NEW_COMPUTE = 74
_WARM_UP = 3
_START = 300.0


@dataclass
class Side:
    """A scheduler that is asked over a bus of its own, and the processes that answer."""

    name: str
    bus: str
    programs: Sequence[Program]
    conductor: Conductor
    times: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)

    def serves(self) -> bool:
        """Whether a scheduler reads the queue of requests."""
        for program in self.programs:
            check(program)
        with kombu.Connection(self.bus.replace("rabbit://", "amqp://")) as connection:
            try:
                queue = connection.default_channel.queue_declare("scheduler", passive=True)
            except connection.channel_errors:
                return False
            return int(queue.consumer_count) > 0

    def cpu_ms(self) -> float:
        """Return how many milliseconds its processes ran so far, the database's not among them."""
        groups = {program.process.pid for program in self.programs if program.process is not None}
        ticks = 0
        for file in Path("/proc").glob("[0-9]*/stat"):
            try:
                shown = file.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(shown[2]) in groups:
                ticks += int(shown[11]) + int(shown[12])
        return ticks * 1000 / os.sysconf("SC_CLK_TCK")

    def ask(self, primitive: dict[str, Any], instance: str) -> str:
        """Ask for a host for an instance, take down what it took, and return the host."""
        data = {**primitive["nova_object.data"], "instance_uuid": instance}
        ran, began = self.cpu_ms(), time.perf_counter()
        answer = self.conductor.call(
            "select_destinations",
            spec_obj={**primitive, "nova_object.data": data},
            instance_uuids=[instance],
            return_objects=True,
            return_alternates=True,
        )
        self.times.append((time.perf_counter() - began) * 1000)
        self.cpu.append(self.cpu_ms() - ran)
        host: str = answer[0][0]["nova_object.data"]["service_host"]
        self.hosts.append(host)
        return host

    def settle(self) -> None:
        """Wait until its processes have nothing to do, after a start or an announcement."""
        until(self._idle, f"{self.name} is idle")

    def _idle(self) -> bool:
        before = self.cpu_ms()
        time.sleep(2)
        return self.cpu_ms() - before < 200


@dataclass(frozen=True)
class Stage:
    """Both sides, and what they are asked on."""

    nova: NovaCloud
    port: int
    sides: Sequence[Side]

    def release(self, instance: str) -> None:
        """Delete what was claimed for an instance."""
        status = ask_placement(self.port, "DELETE", f"/allocations/{instance}")
        if status != 204:
            raise RuntimeError(f"placement answers {status} when {instance} is released")

    def announce_instances(self) -> None:
        """Send both schedulers each host's instances, as nova-compute does every 2 minutes."""
        table = self.nova.cells["one"].tables["instances"]
        by_host: dict[str, list[str]] = {host: [] for host in host_uuids(self.nova)}
        with self.nova.cells["one"].engine.connect() as connection:
            for host, uuid in connection.execute(select(table.c.host, table.c.uuid)):
                by_host[host].append(uuid)
        for side in self.sides:
            for host, uuids in by_host.items():
                side.conductor.announce(
                    "sync_instance_info", "4.2", host_name=host, instance_uuids=uuids
                )


def ask_placement(port: int, method: str, path: str) -> int:
    """Return the status of an answer of placement."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, headers={"X-Auth-Token": "admin"})
        return connection.getresponse().status
    finally:
        connection.close()


def check(program: Program) -> None:
    """Raise :class:`RuntimeError` where a program has ended."""
    if program.process is None or program.process.poll() is not None:
        raise RuntimeError(f"{program.name} ended\n{program.last_lines(30)}")


def until(true: Callable[[], bool], what: str) -> None:
    """Wait until it is so."""
    end = time.monotonic() + _START
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"not in {_START:.0f} s: {what}")
        time.sleep(0.2)


def host_uuids(nova: NovaCloud) -> dict[str, str]:
    """Return the uuids of the compute nodes by their hosts."""
    table = nova.cells["one"].tables["compute_nodes"]
    with nova.cells["one"].engine.connect() as connection:
        found = connection.execute(select(table.c.host, table.c.uuid).order_by(table.c.id))
        return dict(map(tuple, found))


def vary(nova: NovaCloud) -> None:
    """Let the hosts use unlike amounts of memory and disk."""
    table = nova.cells["one"].tables["compute_nodes"]
    kind = table.c.id % HOST_KINDS
    used = {"memory_mb": kind * 4096, "local_gb": kind * 40}
    values: dict[str, Any] = {f"{name}_used": amount for name, amount in used.items()}
    values["free_ram_mb"] = table.c.memory_mb - used["memory_mb"]
    values["free_disk_gb"] = table.c.local_gb - used["local_gb"]
    values["disk_available_least"] = table.c.local_gb - used["local_gb"]
    values["vcpus_used"] = case((kind == 0, 2), else_=kind * 3)
    with nova.cells["one"].engine.begin() as connection:
        connection.execute(update(table).values(values))


def filled(urls: Sequence[str], own: str, given: argparse.Namespace) -> NovaCloud:
    """Return a nova of one cell with all hosts and instances; placement's database has the same."""
    run_peer_job("tables", *map(novas, urls))
    nova = NovaCloud(urls[0], urls[1])
    nova.add_cell("one", urls[2])
    for name, url in (("cell0", urls[1]), ("one", urls[2])):
        nova.api.change("cell_mappings", {"name": name}, database_connection=novas(url))
    rows(nova, given)
    cell = nova.cells["one"]
    cell.change("services", {"binary": "nova-compute"}, version=_NEW_COMPUTE, last_seen_up=utcnow())
    vary(nova)
    table = cell.tables["instances"]
    with cell.engine.connect() as connection:
        instances = list(connection.scalars(select(table.c.uuid).order_by(table.c.id)))
    database = Database(make_settings(own))
    sync(database, utcnow)
    nova_placement.fill(database, host_uuids(nova), instances)
    database.dispose()
    return nova


def novas(url: str) -> str:
    """Return a URL with the driver that the peer has."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg2")
    return parsed.render_as_string(hide_password=False)


def configured(
    name: str, bus: str, urls: Sequence[str], folder: Path, limit: int
) -> dict[str, dict[str, str]]:
    """Return the options that both schedulers have, but for where placement is."""
    return {
        "DEFAULT": {
            "host": name,
            "transport_url": bus,
            "state_path": str(folder),
            "use_stderr": "true",
            # No nova-compute runs here that would show that its host is up.
            "service_down_time": "86400",
        },
        "api_database": {"connection": novas(urls[0])},
        "database": {"connection": novas(urls[2])},
        "scheduler": {"workers": "1", "max_placement_results": str(limit)},
        "oslo_concurrency": {"lock_path": str(folder / "locks")},
    }


def placement_of(own: str, folder: Path, port: int) -> Program:
    """Return OpenStack's placement under uwsgi."""
    api, database = {"auth_strategy": "noauth2"}, {"connection": novas(own)}
    write_options(folder / "placement.conf", {"api": api, "placement_database": database})
    command = [
        *(BIN / "uwsgi", "--processes", "1", "--http-socket", f"127.0.0.1:{port}"),
        *("--module", "placement.wsgi.api", "--callable", "application"),
        *("--need-app", "--disable-logging", "--die-on-term"),
    ]
    # uwsgi is of this environment; it shall find the packages of the other one first.
    (packages,) = PEER_PYTHON.parents[1].glob("lib/python3*/site-packages")
    variables = {"OS_PLACEMENT_CONFIG_DIR": str(folder), "PYTHONPATH": str(packages)}
    return Program("placement", command, folder, variables)


@contextmanager
def staged(given: argparse.Namespace) -> Iterator[Stage]:
    """Give both sides, running; end them at the end, and drop the databases."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="nova-rpc-")))
        kind = KINDS[given.database]
        urls = [stack.enter_context(empty_database(kind, folder)) for _ in ("api", "0", "1")]
        own = stack.enter_context(empty_database(kind, folder))
        nova = filled(urls, own, given)
        stack.callback(nova.close)
        show(f"{given.database}: {given.hosts} hosts, {given.instances} instances")
        broker = BROKER.replace("amqp://", "rabbit://")
        buses = [stack.enter_context(private_bus(broker)) for _ in range(2)]
        port = stack.enter_context(reserve_port()).getsockname()[1]
        placement = placement_of(own, folder, port)
        theirs = configured("theirs", buses[0], urls, folder, given.limit)
        url = f"http://127.0.0.1:{port}"
        login = {"auth_type": "admin_token", "token": "admin", "endpoint": url}
        theirs["placement"] = {**login, "endpoint_override": url}
        conf = write_options(folder / "nova.conf", theirs)
        command = [PEER_PYTHON.parent / "nova-scheduler", "--config-file", conf]
        scheduler = Program("nova-scheduler", command, folder, {"HOME": str(folder)})
        ours = configured("ours", buses[1], urls, folder, given.limit)
        ours["placement_database"] = {"connection": own}
        conf = write_options(folder / "own.conf", ours)
        command = [BIN / "placement-sched", "nova-scheduler", "--config-file", conf]
        service = Program("placement-sched", command, folder)
        for program in (placement, scheduler, service):
            stack.callback(program.kill)
            program.start()
            if program is placement:
                # nova-scheduler asks it first of all.
                until(lambda: answers(placement, port), "placement answers")
        sides = (
            Side("nova-scheduler", buses[0], (scheduler, placement), Conductor(buses[0])),
            Side("placement-sched", buses[1], (service,), Conductor(buses[1])),
        )
        for side in sides:
            stack.callback(side.conductor.close)
        yield Stage(nova, port, sides)


def answers(placement: Program, port: int) -> bool:
    """Whether placement answers already."""
    check(placement)
    try:
        return ask_placement(port, "GET", "/") == 200
    except OSError:
        return False


def begin(stage: Stage) -> None:
    """Wait until both sides are ready and know all instances."""
    began = time.monotonic()

    def seconds() -> str:
        return f"{time.monotonic() - began:.0f} s"

    for side in stage.sides:
        until(side.serves, f"{side.name} serves")
        side.settle()
        show(f"{side.name} is ready after {seconds()}")
    stage.announce_instances()
    show(f"the instances of every host were announced after {seconds()}")
    for side in stage.sides:
        side.settle()
        show(f"{side.name} has read them after {seconds()}")


def specs() -> list[dict[str, Any]]:
    """Return the RequestSpecs that are sent in turn, made by nova."""
    image = {"id": str(uuid4()), "name": "cirros", "status": "active", "disk_format": "raw"}
    image |= {"container_format": "bare", "owner": "demo"}
    known: Mapping[str, Any] = {"min_ram": 0, "min_disk": 0, "size": 1, "properties": {}}
    flavor = {"id": 1, "ephemeral_gb": 0, "swap": 0, "rxtx_factor": 1.0, "vcpu_weight": 0}
    flavor |= {"disabled": False, "is_public": True, "extra_specs": {}}
    described = []
    for vcpus, memory, disk in FLAVORS:
        size = {"vcpus": vcpus, "memory_mb": memory, "root_gb": disk}
        named = {"name": f"m{vcpus}", "flavorid": f"m{vcpus}"}
        one = {"flavor": {**flavor, **size, **named}, "image": {**image, **known}}
        described.append({"uuids": [str(uuid4())], **one})
    made: list[dict[str, Any]] = run_peer_job("specs", given=described)
    return made


def race(stage: Stage, requests: int) -> None:
    """Ask both in turns; the first requests, in which caches are filled, do not count."""
    sent = specs()
    for number in range(_WARM_UP + requests):
        if number == _WARM_UP:
            for side in stage.sides:
                for taken in (side.times, side.cpu, side.hosts):
                    taken.clear()
        for side in stage.sides:
            instance = str(uuid4())
            side.ask(sent[number % len(sent)], instance)
            stage.release(instance)


def agreement(stage: Stage) -> Counter[str]:
    """Return how often both chose the same host, or hosts with the same figures, or others."""
    table = stage.nova.cells["one"].tables["compute_nodes"]
    statement = select(table.c.host, table.c.free_ram_mb, table.c.free_disk_gb, table.c.vcpus_used)
    with stage.nova.cells["one"].engine.connect() as connection:
        figures = {host: tuple(rest) for host, *rest in connection.execute(statement)}
    found: Counter[str] = Counter()
    for one, other in zip(*(side.hosts for side in stage.sides), strict=True):
        same = "of equal weight" if figures[one] == figures[other] else "others"
        found["equal" if one == other else same] += 1
    return found


def show_results(stage: Stage) -> None:
    """Print medians and the ninth deciles of both, their ratio, and whether the hosts agree."""
    show("| side | median ms | p90 ms | CPU ms |\n| --- | --: | --: | --: |")
    for side in stage.sides:
        slow = quantiles(side.times, n=10)[-1]
        cpu = sum(side.cpu) / len(side.cpu)
        show(f"| {side.name} | {median(side.times):.1f} | {slow:.1f} | {cpu:.1f} |")
    theirs, ours = stage.sides
    pairs = [one / other for one, other in zip(theirs.times, ours.times, strict=True)]
    cpus = sum(theirs.cpu) / max(sum(ours.cpu), 1)
    show(f"\nratio {median(pairs):.1f}, of CPU {cpus:.1f}")
    show("first hosts: " + ", ".join(f"{n} {what}" for what, n in agreement(stage).items()))


def show(what: str) -> None:
    """Print at once."""
    print(what, flush=True)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m bench.nova_rpc", description=__doc__)
    parser.add_argument("--database", choices=KINDS, default="mariadb")
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--instances", type=int, help="on all hosts (10 each)")
    parser.add_argument("--requests", type=int, default=30, help="to each side")
    parser.add_argument("--limit", type=int, default=1000, help="[scheduler] max_placement_results")
    parser.add_argument("--quick", action="store_true", help="500 hosts, 10 requests")
    chosen = parser.parse_args(given)
    if chosen.quick:
        chosen.hosts, chosen.requests = 500, 10
    if chosen.instances is None:
        chosen.instances = 10 * chosen.hosts
    return chosen


def main() -> int:
    """Run the race; return 2 where nova is not installed."""
    given = arguments()
    if not PEER_PYTHON.exists():
        print(f"there is no {PEER_PYTHON}: make peer installs nova", file=sys.stderr)
        return 2
    # What runs is ended, and databases are dropped, whichever signal comes.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    show(f"`{shlex.join(sys.argv)}`, load average {os.getloadavg()[0]:.1f}")
    with staged(given) as stage:
        try:
            begin(stage)
            race(stage, given.requests)
        except Exception:
            programs = [program for side in stage.sides for program in side.programs]
            print("\n".join(one.last_lines(30) for one in programs), file=sys.stderr)
            raise
        show_results(stage)
    return 0


if __name__ == "__main__":
    sys.exit(main())
