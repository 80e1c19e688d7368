"""The database and the two servers of a race, made and taken away again."""

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import orjson
from sqlalchemy import create_engine, text
from sqlalchemy.engine import URL, make_url

OUT = Path(__file__).resolve().parent / "out"
PEER = ("openstack-placement==16.0.0", "uwsgi", "psycopg2-binary")
LATEST = "1.39"
SERVER = "postgresql+psycopg://root@127.0.0.1/postgres"
_START, _STOP = 60.0, 10.0


class WrongAnswer(Exception):
    """An answer is not what it should be: as the peer's, or as what was acknowledged before."""


class Request(NamedTuple):
    """What is asked; ``body`` is encoded as JSON unless it is None."""

    method: str
    path: str
    body: object = None
    version: str = LATEST

    @property
    def headers(self) -> dict[str, str]:
        """Return its headers but for those of the body."""
        return {"X-Auth-Token": "admin", "OpenStack-API-Version": f"placement {self.version}"}


class Reply(NamedTuple):
    """What is answered."""

    status: int
    body: bytes


class Address(NamedTuple):
    """Where a server of this machine is asked."""

    port: int
    prefix: str

    def ask(self, request: Request) -> Reply:
        """Return the answer.

        Each request has a connection of its own, as uwsgi keeps none open.
        """
        headers, body = request.headers, None
        if request.body is not None:
            headers["Content-Type"] = "application/json"
            body = orjson.dumps(request.body)
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=600)) as connection:
            connection.request(request.method, self.prefix + request.path, body, headers)
            response = connection.getresponse()
            return Reply(response.status, response.read())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that every race has."""
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--server",
        default=os.environ.get("PLACEMENT_SCHED_TEST_POSTGRESQL", SERVER),
        help="PostgreSQL server on which a database may be made (default: %(default)s)",
    )
    parser.add_argument(
        "--peer-venv", type=Path, help="virtual environment that has the peer, uwsgi and psycopg2"
    )


@contextmanager
def throwaway_database(server: str) -> Iterator[URL]:
    """Create a PostgreSQL database on ``server`` (an SQLAlchemy URL); drop it at the end."""
    name = f"ps_bench_{uuid4().hex[:12]}"
    engine = create_engine(make_url(server), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    try:
        yield engine.url.set(database=name)
    finally:
        with engine.connect() as connection:
            connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
        engine.dispose()


def peer_venv(given: Path | None) -> Path:
    """Return a virtual environment that has the peer: the one given, or our own, made once."""
    if given is not None:
        return given
    home = OUT / "peer-venv"
    if not (home / ".complete").exists():
        print(f"making {home.name} with {PEER[0]} ...", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
        subprocess.run([home / "bin" / "pip", "install", "--quiet", *PEER], check=True)
        (home / ".complete").touch()
    return home


@dataclass
class Server:
    """A running server: its name, where it is asked, and the process that the race started."""

    name: str
    address: Address
    process: subprocess.Popen[bytes]

    def get(self, path: str) -> bytes:
        """Return the body of a 200; raise :class:`RuntimeError` for anything else."""
        reply = self.address.ask(Request("GET", path))
        if reply.status != 200:
            raise RuntimeError(f"{self.name} answers {reply.status}: {reply.body[:500]!r}")
        return reply.body

    def cpu_seconds(self) -> float:
        """Return how long its processes have been running on a CPU so far.

        That says what a request costs even while other work keeps the machine busy. It is read
        from Linux's /proc; the database's processes are not among them.
        """
        nanoseconds = 0
        for process in _family(self.process.pid):
            for task in Path(f"/proc/{process}/task").iterdir():
                nanoseconds += int((task / "schedstat").read_text().split()[0])
        return nanoseconds / 1e9


def _family(process: int) -> Iterator[int]:
    """Yield a process and all that come of it."""
    yield process
    for task in Path(f"/proc/{process}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from _family(int(child))


@contextmanager
def ours(database: URL, workers: int = 1) -> Iterator[Server]:
    """Run ``placement-sched serve`` on the database."""
    port = _free_port()
    command = [
        *(Path(sys.executable).parent / "placement-sched", "serve"),
        *("--port", str(port), "--workers", str(workers)),
    ]
    url = database.set(drivername="postgresql").render_as_string(hide_password=False)
    settings = {"OS_PLACEMENT_DATABASE__CONNECTION": url, "OS_API__AUTH_STRATEGY": "noauth2"}
    with _running("ours", command, settings, Address(port, "/placement")) as server:
        yield server


@contextmanager
def peer(database: URL, venv: Path, workers: int = 1) -> Iterator[Server]:
    """Run openstack-placement under uwsgi on the database."""
    port = _free_port()
    folder = OUT / "peer-conf"
    folder.mkdir(parents=True, exist_ok=True)
    url = database.set(drivername="postgresql+psycopg2").render_as_string(hide_password=False)
    (folder / "placement.conf").write_text(
        f"[api]\nauth_strategy = noauth2\n[placement_database]\nconnection = {url}\n"
    )
    command = [
        *(venv / "bin" / "uwsgi", "--http-socket", f"127.0.0.1:{port}", "-p", str(workers)),
        *("--module", "placement.wsgi.api", "--callable", "application"),
        *("--need-app", "--disable-logging", "--die-on-term"),
        # Else both workers would talk on the connections that the first one opened.
        "--lazy-apps",
    ]
    settings = {"OS_PLACEMENT_CONFIG_DIR": str(folder)}
    with _running("peer", command, settings, Address(port, "")) as server:
        yield server


@contextmanager
def _running(
    name: str, command: Sequence[object], settings: dict[str, str], address: Address
) -> Iterator[Server]:
    OUT.mkdir(exist_ok=True)
    with (OUT / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [str(part) for part in command],
            env={**os.environ, **settings},
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=OUT,
        )
        try:
            _await(process, address.port, name)
            yield Server(name, address, process)
        finally:
            _end(process)


def _await(process: subprocess.Popen[bytes], port: int, name: str) -> None:
    deadline = time.monotonic() + _START
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"{name} did not start; see bench/out/{name}.log")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_STOP)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        found: int = trial.getsockname()[1]
        return found
