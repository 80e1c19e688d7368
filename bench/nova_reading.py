# SPDX-License-Identifier: Apache-2.0
"""How long it takes to read a nova: everything, then rounds, and before a request.

Fills the databases of a nova, made by its own migrations, with hosts and instances as a cloud of
libvirt hosts has them, reads them into a database of this service on the same server, and changes
a share of them before each round. Prints medians in milliseconds.
"""

import argparse
import random
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from uuid import UUID

from sqlalchemy import Table, bindparam, insert, make_url, update

from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.nova.sync.follower import Follower
from placement_sched.operations.prepare import freeze_loaded_objects, sync
from tests.conftest import make_settings
from tests.differential.duel import PEER_PYTHON
from tests.support.empty_databases import empty_database
from tests.support.nova_clouds import NovaCloud, build_flavor_json, instance_row, node_row

MIGRATE = Path(__file__).resolve().parents[1] / "tests" / "nova" / "migrate.py"
KINDS = {"postgresql": "postgresql", "mariadb": "mysql"}
_FLAVORS = 30
#: Keys of each instance by table.
_METADATA = {"instance_metadata": 2, "instance_system_metadata": 20}
_AT_ONCE = 1000


def main() -> None:
    """Measure each kind of database that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=KINDS, action="append")
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--instances", type=int, default=100_000)
    parser.add_argument("--changed", type=float, default=0.01, help="share that changes")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="a tenth of all")
    given = parser.parse_args()
    if given.quick:
        given.hosts, given.instances, given.rounds = given.hosts // 10, given.instances // 10, 3
    for kind in given.database or KINDS:
        measure(kind, given)


def measure(kind: str, given: argparse.Namespace) -> None:
    """Fill, read and print."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        urls = [stack.enter_context(empty_database(KINDS[kind], folder)) for _ in ("api", "0", "1")]
        own = stack.enter_context(empty_database(KINDS[kind], folder))
        nova = filled(urls, given)
        stack.callback(nova.close)
        settings = make_settings(
            own, api_database__connection=nova.api.url, DEFAULT__service_down_time=60
        )
        database = Database(settings)
        stack.callback(database.dispose)
        sync(database, utcnow)
        follower = Follower(database, settings)
        stack.callback(follower.close)
        print(f"{kind}: {given.hosts} hosts, {given.instances} instances", flush=True)
        print(f"  first reading        {timed(follower.full):10.0f} ms", flush=True)
        print(f"  full comparison      {timed(follower.full):10.0f} ms", flush=True)
        follower.round()
        freeze_loaded_objects()
        change = Changes(nova, given)
        show("round, nothing changed", [timed(follower.round) for _ in range(given.rounds)])
        show("round, heartbeats", follow(change.heartbeats, follower.round, given))
        show("round, 1 % changed", follow(change.everything, follower.round, given))
        change.heartbeats(1.0)
        follower.round()
        show("refresh, nothing new", [timed(follower.refresh) for _ in range(given.rounds)])
        show("refresh, 20 nodes", follow(lambda: change.nodes(20), follower.refresh, given))
        show("refresh, 1 % nodes", follow(change.nodes, follower.refresh, given))
        another = Follower(database, settings)
        stack.callback(another.close)
        print(f"  first refresh        {timed(another.refresh):10.0f} ms", flush=True)
        print(f"  differences left     {follower.compare().differing:10d}", flush=True)


def timed(work: Callable[[], object]) -> float:
    """Return how many milliseconds some work takes."""
    begun = perf_counter()
    work()
    return (perf_counter() - begun) * 1000


def follow(
    change: Callable[[], None], read: Callable[[], object], given: argparse.Namespace
) -> list[float]:
    """Return how long each reading takes, after a change each."""
    times = []
    for _ in range(given.rounds):
        change()
        times.append(timed(read))
    return times


def show(what: str, times: list[float]) -> None:
    """Print a median, and the worst."""
    print(f"  {what:22} {median(times):8.1f} ms, at most {max(times):8.1f} ms", flush=True)


class Changes:
    """What nova's services write within some seconds, written as fast as it goes."""

    def __init__(self, nova: NovaCloud, given: argparse.Namespace) -> None:
        self._cell = nova.cells["one"]
        self._hosts, self._instances = given.hosts, given.instances
        self._share = given.changed
        self._random = random.Random(7)

    def _change(self, table: Table, ids: list[int], **values: object) -> None:
        change = update(table).where(table.c.id == bindparam("b_id"))
        with self._cell.engine.begin() as connection:
            statement = change.values(updated_at=utcnow(), **values)
            connection.execute(statement, [{"b_id": number} for number in ids])

    def _some(self, number: int, share: float) -> list[int]:
        return self._random.sample(range(1, number + 1), max(1, round(number * share)))

    def heartbeats(self, share: float = 0.5) -> None:
        """Let half of the hosts be seen, as in five of ten seconds."""
        ids = self._some(self._hosts, share)
        self._change(self._cell.tables["services"], ids, last_seen_up=utcnow())

    def nodes(self, number: int | None = None) -> None:
        """Let so many nodes, or the share, report other figures."""
        share = self._share if number is None else number / self._hosts
        ids = self._some(self._hosts, share)
        used = self._random.randrange(1, 30)
        self._change(self._cell.tables["compute_nodes"], ids, vcpus_used=used)

    def everything(self) -> None:
        """Let the share of nodes and of instances change, and half of the hosts be seen."""
        self.heartbeats()
        self.nodes()
        ids = self._some(self._instances, self._share)
        host = f"cn{self._random.randrange(self._hosts):05}"
        self._change(self._cell.tables["instances"], ids, host=host, node=host)


def filled(urls: list[str], given: argparse.Namespace) -> NovaCloud:
    """Return a nova of one cell with all hosts and instances."""
    for kind, url in zip(("api", "main", "main"), urls, strict=True):
        subprocess.run(
            [PEER_PYTHON, MIGRATE, kind, peers(url), "head"], check=True, capture_output=True
        )
    api, cell0, one = urls
    nova = NovaCloud(api, cell0)
    nova.add_cell("one", one)
    rows(nova, given)
    return nova


def peers(url: str) -> str:
    """Return a URL with the driver that the peer has."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg2")
    else:
        parsed = parsed.set(query={})
    return parsed.render_as_string(hide_password=False)


@contextmanager
def inserting(nova: NovaCloud) -> Iterator[Callable[[str, list[dict[str, object]]], None]]:
    """Give a function that inserts rows into the cell's table of a name."""
    cell = nova.cells["one"]
    with cell.engine.begin() as connection:

        def add(name: str, rows: list[dict[str, object]]) -> None:
            table = cell.tables[name]
            known = [{key: one[key] for key in one if key in table.c} for one in rows]
            for at in range(0, len(known), _AT_ONCE):
                connection.execute(insert(table), known[at : at + _AT_ONCE])

        yield add


def rows(nova: NovaCloud, given: argparse.Namespace) -> None:
    """Fill the cell; aggregates and groups are a few hundred."""
    drawn = random.Random(3)
    names = [f"cn{number:05}" for number in range(given.hosts)]
    born = {"created_at": utcnow() - timedelta(days=9), "deleted": 0}
    old = {**born, "updated_at": utcnow() - timedelta(minutes=30)}

    def uuid() -> str:
        return str(UUID(int=drawn.getrandbits(128), version=4))

    flavors = [build_flavor_json(f"m{number}", flavorid=str(number)) for number in range(_FLAVORS)]
    uuids = [uuid() for _ in range(given.instances)]
    service = {"binary": "nova-compute", "topic": "compute", "report_count": 9, "version": 66}
    service |= {"disabled": False, "forced_down": False, "last_seen_up": utcnow()}
    with inserting(nova) as add:
        add("services", [{**old, **service, "uuid": uuid(), "host": host} for host in names])
        add("compute_nodes", [{**old, **node_row(host), "uuid": uuid()} for host in names])
        add(
            "instances",
            [{**instance_row(one, names[at % len(names)]), **old} for at, one in enumerate(uuids)],
        )
        add(
            "instance_extra",
            [
                {**old, "instance_uuid": one, "flavor": flavors[at % _FLAVORS]}
                for at, one in enumerate(uuids)
            ],
        )
        for name, count in _METADATA.items():
            for number in range(count):
                pair = {"key": f"image_hw_property_{number}", "value": f"value-{number}"}
                add(name, [{**born, **pair, "instance_uuid": one} for one in uuids])
    for number in range(50):
        first = number * len(names) // 50
        hosts = tuple(names[first : first + len(names) // 50])
        nova.add_aggregate(f"racks-{number}", hosts[:40], availability_zone=f"az{number % 3}")
    for number in range(100):
        group = nova.add_group(f"group-{number}")
        for one in uuids[number * 5 : number * 5 + 5]:
            nova.join(group, one)
    table = nova.api.tables["host_mappings"]
    mapped = [{"host": host, "cell_id": nova.numbers["one"]} for host in names]
    with nova.api.engine.begin() as connection:
        connection.execute(insert(table), mapped)


if __name__ == "__main__":
    main()
