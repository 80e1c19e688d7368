"""The database and the two servers of a race, made and taken away again."""

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
from uuid import uuid4

from sqlalchemy import create_engine, text
from sqlalchemy.engine import URL, make_url

OUT = Path(__file__).resolve().parent / "out"
PEER = ("openstack-placement==16.0.0", "uwsgi", "psycopg2-binary")
HEADERS = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"}
_START, _STOP = 60.0, 10.0


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
    """A running server: its name, port and the process that the race started."""

    name: str
    port: int
    prefix: str
    process: subprocess.Popen[bytes]

    def get(self, path: str) -> bytes:
        """Return the body of a 200; raise :class:`RuntimeError` for anything else.

        Each request has a connection of its own, as uwsgi keeps none open.
        """
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=600)) as connection:
            connection.request("GET", self.prefix + path, headers=HEADERS)
            response = connection.getresponse()
            body = response.read()
        if response.status != 200:
            raise RuntimeError(f"{self.name} answers {response.status}: {body[:500]!r}")
        return body


@contextmanager
def ours(database: URL) -> Iterator[Server]:
    """Run ``placement-sched serve`` with one worker on the database."""
    port = _free_port()
    command = [Path(sys.executable).parent / "placement-sched", "serve", "--port", str(port)]
    url = database.set(drivername="postgresql").render_as_string(hide_password=False)
    settings = {"OS_PLACEMENT_DATABASE__CONNECTION": url, "OS_API__AUTH_STRATEGY": "noauth2"}
    with _running("ours", command, settings, port, "/placement") as server:
        yield server


@contextmanager
def peer(database: URL, venv: Path) -> Iterator[Server]:
    """Run openstack-placement with one uwsgi worker on the database."""
    port = _free_port()
    folder = OUT / "peer-conf"
    folder.mkdir(parents=True, exist_ok=True)
    url = database.set(drivername="postgresql+psycopg2").render_as_string(hide_password=False)
    (folder / "placement.conf").write_text(
        f"[api]\nauth_strategy = noauth2\n[placement_database]\nconnection = {url}\n"
    )
    command = [
        *(venv / "bin" / "uwsgi", "--http-socket", f"127.0.0.1:{port}", "-p", "1"),
        *("--module", "placement.wsgi.api", "--callable", "application"),
        *("--need-app", "--disable-logging", "--die-on-term"),
    ]
    settings = {"OS_PLACEMENT_CONFIG_DIR": str(folder)}
    with _running("peer", command, settings, port, "") as server:
        yield server


@contextmanager
def _running(
    name: str, command: Sequence[object], settings: dict[str, str], port: int, prefix: str
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
            _await(process, port, name)
            yield Server(name, port, prefix, process)
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
