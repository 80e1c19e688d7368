# SPDX-License-Identifier: Apache-2.0
"""Databases of a run: each holds a world, filled when first asked for and dropped at the end."""

import argparse
import hashlib
import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self
from uuid import uuid4

from load import fill, open_database
from sqlalchemy import create_engine, func, select, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import SQLAlchemyError
from targets import DATABASES
from worlds.rows import World

from placement_sched.db import migrate, tables

OUT = Path(__file__).resolve().parent / "out"
#: Where databases are made, by kind; the servers are those of the tests.
SERVERS = {
    "postgresql": os.environ.get(
        "PLACEMENT_SCHED_TEST_POSTGRESQL", "postgresql+psycopg://root@127.0.0.1/postgres"
    ),
    "mariadb": os.environ.get("PLACEMENT_SCHED_TEST_MYSQL", "mysql+pymysql://root@127.0.0.1/"),
    "sqlite": f"sqlite:///{OUT}/",
}
#: The kind of a cluster of three nodes, which is started for the run.
GALERA = "galera"
_PREFIX = "ps_bench_"
_KEPT = f"{_PREFIX}kept_"


def add_arguments(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """Add the options that say where databases are made: on one server, or on several in turn."""
    if several:
        parser.add_argument(
            "--database",
            dest="databases",
            type=_kinds,
            default=DATABASES,
            help=f"with commas: {', '.join((*SERVERS, GALERA))} (default: {','.join(DATABASES)})",
        )
    else:
        parser.add_argument("--database", choices=SERVERS, default="postgresql")
    parser.add_argument(
        "--server",
        help="SQLAlchemy URL of a server on which databases may be made (default: that of the "
        "tests; for SQLite a folder, sqlite:////var/tmp/)",
    )


def _kinds(shown: str) -> tuple[str, ...]:
    kinds = tuple(shown.split(","))
    every = (*SERVERS, GALERA)
    if unknown := [kind for kind in kinds if kind not in every]:
        raise argparse.ArgumentTypeError(f"not {', '.join(unknown)}, but {', '.join(every)}")
    return kinds


def server_url(given: argparse.Namespace) -> URL:
    """Return the server that the command line asks for."""
    return make_url(given.server or SERVERS[given.database])


def server_urls(given: argparse.Namespace) -> dict[str, URL]:
    """Return servers by their kinds, of which there is one where the command line has its URL."""
    if given.server is None:
        return {kind: make_url(SERVERS[kind]) for kind in given.databases}
    url = make_url(given.server)
    return {"mariadb" if url.get_backend_name() == "mysql" else url.get_backend_name(): url}


@contextmanager
def started_servers(given: argparse.Namespace) -> Iterator[dict[str, URL]]:
    """Give the same, with the first node of a Galera cluster that runs until the end."""
    kinds = given.databases
    given.databases = tuple(kind for kind in kinds if kind != GALERA)
    with ExitStack() as stack:
        urls = server_urls(given)
        if GALERA in kinds and given.server is None:
            sys.path.append(str(Path(__file__).parents[1]))
            cluster = importlib.import_module("tests.galera.cluster")
            cluster.SETTINGS["innodb-buffer-pool-size"] = "128M"  # as MariaDB has it
            started = stack.enter_context(cluster.new_cluster())
            urls[GALERA] = make_url(started.nodes[0].url()).set(database=None)
        yield urls


class Stock:
    """Hands out databases by world; those of one run, or kept for the next as well."""

    def __init__(self, server: URL, keep: bool = False) -> None:
        self._server, self._keep = server, keep
        self._held: dict[World, URL] = {}
        #: How long the worlds took to load that were loaded now.
        self.load_seconds: dict[World, float] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Begin with nothing."""
        return self

    def __exit__(self, *_failure: object) -> None:
        """Drop all but what is kept."""
        self._stack.close()

    def holding(self, world: World) -> URL:
        """Return a database filled with ``world``: made now, unless it is there already."""
        if world not in self._held:
            name = f"{_KEPT}{_digest(world)}" if self._keep else f"{_PREFIX}{uuid4().hex[:12]}"
            url = _named(self._server, name)
            if not (self._keep and _filled(url)):
                self._make(name, url, world)
            self._held[world] = url
        return self._held[world]

    def _make(self, name: str, url: URL, world: World) -> None:
        _drop(self._server, name)
        self._stack.callback(_drop_unless_kept, self._server, name, self._keep)
        _create(self._server, name)
        seconds = fill(url.render_as_string(hide_password=False), world)
        self.load_seconds[world] = seconds
        kind = type(world).__name__
        print(f"loaded {kind} of {world.size:,} in {seconds:.1f} s", flush=True)


@contextmanager
def filled_database(given: argparse.Namespace, world: World) -> Iterator[URL]:
    """Give one database that holds ``world``; drop it at the end."""
    with Stock(server_url(given)) as stock:
        yield stock.holding(world)


def drop_kept(server: URL) -> int:
    """Drop what earlier runs kept on the server; return how many databases."""
    if server.get_backend_name() == "sqlite":
        names = [path.stem for path in _folder(server).glob(f"{_KEPT}*.db")]
    else:
        listing = "SELECT datname FROM pg_database"
        if server.get_backend_name() == "mysql":
            listing = "SHOW DATABASES"
        engine = create_engine(server, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            names = [name for name in connection.scalars(text(listing)) if name.startswith(_KEPT)]
        engine.dispose()
    for name in names:
        _drop(server, name)
    return len(names)


def _named(server: URL, name: str) -> URL:
    if server.get_backend_name() == "sqlite":
        return server.set(database=str(_folder(server) / f"{name}.db"))
    return server.set(database=name)


def _folder(server: URL) -> Path:
    return Path(server.database or OUT)


def _create(server: URL, name: str) -> None:
    if server.get_backend_name() == "sqlite":
        _folder(server).mkdir(parents=True, exist_ok=True)
        return
    _execute(server, f"CREATE DATABASE {name}")


def _drop(server: URL, name: str) -> None:
    if server.get_backend_name() == "sqlite":
        # The database may be named by a file or by its name alone; its journals go with it.
        for path in _folder(server).glob(f"{Path(name).stem}.db*"):
            path.unlink()
        return
    force = " WITH (FORCE)" if server.get_backend_name() == "postgresql" else ""
    _execute(server, f"DROP DATABASE IF EXISTS {name}{force}")


def _drop_unless_kept(server: URL, name: str, keep: bool) -> None:
    # What is kept but was not filled, because the run was broken off, is of no use.
    if not (keep and _filled(_named(server, name))):
        _drop(server, name)


def _execute(server: URL, statement: str) -> None:
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(statement))
    engine.dispose()


def _filled(url: URL) -> bool:
    """Return whether the database is there and has providers, which are loaded all or none."""
    if url.get_backend_name() == "sqlite" and not Path(str(url.database)).exists():
        return False
    database = open_database(url.render_as_string(hide_password=False))
    try:
        with database.reader.connect() as connection:
            found = connection.scalar(select(func.min(tables.resource_providers.c.id)))
    except SQLAlchemyError:
        return False
    finally:
        database.dispose()
    return found is not None


def _digest(world: World) -> str:
    """Return what names a kept database: other worlds, code or schema make another one."""
    shown = hashlib.sha256(f"{world!r} {migrate.newest_revision()}".encode())
    for path in sorted((Path(__file__).parent / "worlds").glob("*.py")):
        shown.update(path.read_bytes())
    return shown.hexdigest()[:16]
