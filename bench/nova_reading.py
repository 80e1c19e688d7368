# SPDX-License-Identifier: Apache-2.0
"""Times of reading nova's databases: all of it, in rounds, and before a request.

``make bench WHAT=nova_reading``, or ``python bench/nova_reading.py --help``. nova's migrations make
the databases, which get hosts and instances. Before each round, a share of them changes.
"""

import random
import statistics
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from time import perf_counter
from typing import Any

import harness
import services
from sqlalchemy import Table, bindparam, insert, make_url, update
from worlds import random_uuid

from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.nova.sync.follower import Follower
from placement_sched.operations.prepare import freeze_loaded_objects, sync
from tests.conftest import make_settings
from tests.support.nova_clouds import (
    NovaCloud,
    NovaDatabaseFile,
    build_flavor_json,
    instance_row,
    node_row,
)

MIGRATE = Path(__file__).resolve().parents[1] / "tests" / "nova" / "migrate.py"
FLAVORS, AGGREGATES, GROUPS, INSTANCES_PER_HOST = 30, 50, 100, 10
#: Keys of each instance by table.
METADATA = {"instance_metadata": 2, "instance_system_metadata": 20}
MAX_ROWS = 1000
#: One in this number of hosts and instances changes before a round.
CHANGED = 100


def build_nova(urls: Sequence[str], hosts: int) -> NovaCloud:
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
    drawn, cell = random.Random(3), nova.cells["one"]
    names = [f"cn{number:05}" for number in range(hosts)]
    born = {"created_at": utcnow() - timedelta(days=9), "deleted": 0}
    old = {**born, "updated_at": utcnow() - timedelta(minutes=30)}
    flavors = [build_flavor_json(f"m{number}", flavorid=str(number)) for number in range(FLAVORS)]
    uuids = [random_uuid(drawn) for _ in range(hosts * INSTANCES_PER_HOST)]
    service = {"binary": "nova-compute", "topic": "compute", "report_count": 9, "version": 66}
    service |= {"disabled": False, "forced_down": False, "last_seen_up": utcnow()}
    rows: dict[str, list[dict[str, Any]]] = {
        "services": [{**service, "uuid": random_uuid(drawn), "host": name} for name in names],
        "compute_nodes": [{**node_row(name), "uuid": random_uuid(drawn)} for name in names],
        "instances": [instance_row(uuid, names[at % hosts]) for at, uuid in enumerate(uuids)],
        "instance_extra": [
            {"instance_uuid": uuid, "flavor": flavors[at % FLAVORS]}
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


class Changes:
    """Changes that nova's services make within some seconds."""

    def __init__(self, nova: NovaCloud, hosts: int) -> None:
        self._cell, self._hosts = nova.cells["one"], hosts
        self._random = random.Random(7)

    def _change(self, name: str, rows: int, number: int, **values: object) -> None:
        table: Table = self._cell.tables[name]
        ids = self._random.sample(range(1, rows + 1), number)
        statement = update(table).where(table.c.id == bindparam("b_id"))
        with self._cell.engine.begin() as connection:
            statement = statement.values(updated_at=utcnow(), **values)
            connection.execute(statement, [{"b_id": number} for number in ids])

    def heartbeats(self) -> None:
        """Write heartbeats of half of the hosts, as in five of ten seconds."""
        self._change("services", self._hosts, self._hosts // 2, last_seen_up=utcnow())

    def nodes(self, number: int = 20) -> None:
        """Change the usage of nodes."""
        used = self._random.randrange(1, 30)
        self._change("compute_nodes", self._hosts, number, vcpus_used=used)

    def everything(self) -> None:
        """Write heartbeats, and change a share of the nodes and instances."""
        self.heartbeats()
        self.nodes(self._hosts // CHANGED)
        host = f"cn{self._random.randrange(self._hosts):05}"
        rows = self._hosts * INSTANCES_PER_HOST
        self._change("instances", rows, rows // CHANGED, host=host, node=host)


def _time(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return (perf_counter() - start) * 1000


def _read_nova(nova: NovaCloud, own: str, options: Namespace) -> Iterator[tuple[str, float, float]]:
    """Read the databases, and yield the rows of the table."""
    settings = make_settings(
        own, api_database__connection=nova.api.url, DEFAULT__service_down_time=60
    )
    database = Database(settings)
    sync(database, utcnow)
    follower, changes = Follower(database, settings), Changes(nova, options.hosts)
    steps: list[tuple[str, Callable[[], object], Callable[[], object]]] = [
        ("round, heartbeats of half of the hosts", changes.heartbeats, follower.round),
        ("round, 1 % of hosts and instances changed", changes.everything, follower.round),
        ("before a request, nothing changed", follower.round, follower.refresh),
        ("before a request, 20 nodes changed", changes.nodes, follower.refresh),
    ]
    try:
        for name in ("first reading", "full comparison"):
            ms = _time(follower.full)
            yield name, ms, ms
        follower.round()
        freeze_loaded_objects()
        for name, change, read in steps:
            times = []
            for _ in range(options.rounds):
                change()
                times.append(_time(read))
            yield name, statistics.median(times), max(times)
        if differing := follower.compare().differing:
            raise harness.WrongAnswer(f"{differing} rows differ from nova's at the end")
    finally:
        follower.close()
        database.dispose()


def main() -> int:
    """Measure on each database."""
    parser = harness.Options(__doc__, default_databases="postgresql,mariadb")
    parser.add_sized("--hosts", 10_000, 1_000, "hosts")
    parser.add_sized("--rounds", 9, 3, "rounds of each kind")
    options = parser.parse()
    services.require_peer()

    def measure(kind: str, databases: harness.Databases) -> None:
        nova = build_nova([databases.make_empty() for _ in range(3)], options.hosts)
        rows = list(_read_nova(nova, databases.make_empty(), options))
        nova.close()
        title = f"{kind}: {options.hosts} hosts, {INSTANCES_PER_HOST} instances on each"
        table = harness.build_table(("reading", "median ms", "most ms"), rows)
        print(harness.build_section(title, table), flush=True)

    return harness.run_on_databases(options, measure)


if __name__ == "__main__":
    sys.exit(main())
