# SPDX-License-Identifier: Apache-2.0
"""Fills an empty database with a reproducible cloud.

``python bench/load.py URL --world nested --size 10000`` prepares the database as
``placement-sched db sync`` does and fills it; it must hold no providers yet.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import bulk
from sqlalchemy import Connection, select
from worlds.equal import EqualWorld
from worlds.flat import FlatWorld
from worlds.nested import NestedWorld
from worlds.nodes import ALWAYS_UP
from worlds.rows import BORN, COLUMNS, Book, Rows, World, common_rows
from worlds.shared import SharedWorld
from worlds.sparse import SparseWorld

from placement_sched.config.conf import read_files
from placement_sched.config.settings import Settings
from placement_sched.db import tables
from placement_sched.db.transaction import Database
from placement_sched.operations.prepare import sync
from placement_sched.scheduler.plugins import make_full_conf

WORLDS: dict[str, Callable[[int, int], World]] = {
    "flat": FlatWorld,
    "nested": NestedWorld,
    "shared": SharedWorld,
    "equal": EqualWorld,
    "sparse": SparseWorld,
}
#: How many rows of the large tables are held before they are sent.
_AT_ONCE = 30_000


def load(database: Database, world: World) -> None:
    """Prepare an empty database and fill it with ``world``, its statistics gathered."""
    sync(database, lambda: BORN)
    with bulk.filling(database) as connection:
        known = dict(connection.execute(select(tables.traits.c.name, tables.traits.c.id)).all())
        common = common_rows(world, max(known.values()) + 1)
        known |= {str(name): int(str(key)) for key, name in common[tables.traits]}
        _write(connection, common)
        book = Book(known)
        for _ in world.fill(book):
            if len(book) > _AT_ONCE:
                _write(connection, book.take())
        _write(connection, book.take())
    bulk.settle(database, tuple(COLUMNS))


def _write(connection: Connection, rows: Rows) -> None:
    for table, columns in COLUMNS.items():
        if found := rows.get(table):
            stamped = [(BORN, BORN, *row) for row in found]
            bulk.write(connection, table, ("created_at", "updated_at", *columns), stamped)


def open_database(url: str) -> Database:
    """Return the database at ``url`` as the service opens it."""
    conf = read_files(make_full_conf())
    conf.set_override("connection", url, "placement_database")
    return Database(Settings.from_conf(conf))


def fill(url: str, world: World) -> float:
    """Load ``world`` into the empty database at ``url``; return the seconds it took."""
    started = time.perf_counter()
    database = open_database(url)
    try:
        load(database, world)
    finally:
        database.dispose()
    return time.perf_counter() - started


def main() -> None:
    """Fill the database that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="SQLAlchemy URL of an empty database")
    parser.add_argument("--world", choices=WORLDS, default="flat")
    parser.add_argument("--size", type=int, default=2000, help="hosts or trees (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="another cloud of the same kind")
    given = parser.parse_args()
    world = WORLDS[given.world](given.size, given.seed)
    if isinstance(world, SparseWorld):
        # To fill one of its size takes longer than hosts stay up that say nothing.
        world = replace(world, seen=ALWAYS_UP)
    elif isinstance(world, FlatWorld | NestedWorld):
        # The scheduler shall take its hosts as up.
        world = replace(world, seen=datetime.now(UTC).replace(tzinfo=None, microsecond=0))
    seconds = fill(given.url, world)
    print(f"{given.world}, {given.size}: {seconds:.1f} s")


if __name__ == "__main__":
    main()
