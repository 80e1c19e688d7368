# SPDX-License-Identifier: Apache-2.0
"""The two servers of a race, started on a database and ended again."""

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple, NoReturn

import databases
import orjson
import plain_http
from databases import OUT
from plain_http import PEER_LATEST
from sqlalchemy.engine import URL

PEER = ("openstack-placement==16.0.0", "uwsgi", "psycopg2-binary", "PyMySQL")
#: Seconds that a server gets to start, which may read a very large cloud first, and to stop.
_START, _STOP = 600.0, 10.0


class WrongAnswer(Exception):
    """An answer is not what it should be: as the peer's, or as what was acknowledged before."""


class Request(NamedTuple):
    """What is asked; ``body`` is encoded as JSON unless it is None."""

    method: str
    path: str
    body: object = None
    version: str = PEER_LATEST

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
        """Return the answer, on this process's connection to the server where that keeps one."""
        return self.answer(self.message(request))

    def message(self, request: Request) -> bytes:
        """Return what is sent for a request, to be made before any time is taken."""
        headers, body = request.headers, b""
        if request.body is not None:
            headers["Content-Type"] = "application/json"
            body = orjson.dumps(request.body)
        lines = [f"{request.method} {self.prefix}{request.path} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return _client(self.port).message("\r\n".join(lines), body)

    def answer(self, message: bytes) -> Reply:
        """Return the answer to what :meth:`message` made."""
        return Reply(*_client(self.port).ask(message))

    def forget(self) -> None:
        """Close this process's connection, so that the next request makes a new one."""
        _client(self.port).close()


@cache
def _client(port: int) -> plain_http.Client:
    return plain_http.Client(port)


def add_arguments(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """Add the options that every race has; ``several`` databases may be named, or one."""
    parser.add_argument("--seed", type=int, default=1, help="another cloud of the same kind")
    databases.add_arguments(parser, several=several)
    parser.add_argument(
        "--peer-venv", type=Path, help="virtual environment that has the peer, uwsgi and psycopg2"
    )


def peer_venv(given: Path | None) -> Path:
    """Return a virtual environment that has the peer: the one given, or our own, made once."""
    if given is not None:
        require(given / "bin" / "uwsgi", f"pip install {' '.join(PEER)} there")
        return given
    home = OUT / "peer-venv"
    complete = home / ".complete"
    if not complete.exists() or complete.read_text() != " ".join(PEER):
        print(f"making {home.name} with {PEER[0]} ...", flush=True)
        try:
            subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
            subprocess.run([home / "bin" / "pip", "install", "--quiet", *PEER], check=True)
        except subprocess.CalledProcessError:
            give_up(f"{home} cannot be made; --peer-venv names an environment made elsewhere")
        complete.write_text(" ".join(PEER))
    return home


def require(file: Path, way: str) -> None:
    """End the process, before it has begun its work, unless an environment has this file."""
    if not file.exists():
        give_up(f"there is no {file}: {way}")


def give_up(why: str) -> NoReturn:
    """End the process with one line on standard error."""
    print(why, file=sys.stderr)
    sys.exit(2)


@dataclass
class Server:
    """A running server: its name, where it is asked, and the process that the race started."""

    name: str
    address: Address
    process: subprocess.Popen[bytes]
    _whole: tuple[str, bytes] = ("", b"")

    def whole(self, path: str) -> bytes:
        """Return the same as :meth:`get`, which is not asked again for the path asked last.

        To ask the peer for all there is may take minutes.
        """
        if self._whole[0] != path:
            self._whole = (path, self.get(path))
        return self._whole[1]

    def get(self, path: str) -> bytes:
        """Return the body of a 200; raise :class:`WrongAnswer` for anything else."""
        return self.answer(Request("GET", path))

    def answer(self, request: Request) -> bytes:
        """Return the body of a 200; raise :class:`WrongAnswer` for anything else."""
        reply = self.address.ask(request)
        if reply.status != 200:
            shown = f"{reply.status} {reply.body[:500]!r}"
            raise WrongAnswer(f"{self.name}, {request.method} {request.path}: {shown}")
        return reply.body

    def cpu_seconds(self) -> float:
        """Return how long its processes have been running on a CPU so far.

        That says what a request costs even while other work keeps the machine busy. It is read
        from Linux's /proc; the database's processes are not among them.
        """
        return sum(self.cpu_by_process().values())

    def cpu_by_process(self) -> dict[int, float]:
        """Return the same for each of its processes, by their ids."""
        return {process: _cpu_seconds(process) for process in _family(self.process.pid)}

    def resident_mb(self) -> float:
        """Return the resident size of the largest of its processes, which is a worker."""
        return self._largest("VmRSS")

    def peak_mb(self) -> float:
        """Return the largest resident size that any of its processes had since forgotten."""
        return self._largest("VmHWM")

    def forget_peak(self) -> None:
        """Let the peak of memory begin at what is held now."""
        for process in _family(self.process.pid):
            Path(f"/proc/{process}/clear_refs").write_text("5")

    def _largest(self, field: str) -> float:
        found = 0
        for process in _family(self.process.pid):
            for line in Path(f"/proc/{process}/status").read_text().splitlines():
                if line.startswith(f"{field}:"):
                    found = max(found, int(line.split()[1]))
        return found * 1024 / 1e6


def _cpu_seconds(process: int) -> float:
    nanoseconds = 0
    for task in Path(f"/proc/{process}/task").iterdir():
        # A thread may end while it is looked at.
        with suppress(FileNotFoundError, ProcessLookupError):
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
    url = database.render_as_string(hide_password=False)
    settings = {"OS_PLACEMENT_DATABASE__CONNECTION": url, "OS_API__AUTH_STRATEGY": "noauth2"}
    with _running("ours", command, settings, Address(port, "/placement")) as server:
        yield server


@contextmanager
def peer(database: URL, venv: Path, workers: int = 1) -> Iterator[Server]:
    """Run openstack-placement under uwsgi on the database."""
    port = _free_port()
    if database.get_backend_name() == "postgresql":
        # With psycopg 3 each of its claims fails.
        database = database.set(drivername="postgresql+psycopg2")
    url = database.render_as_string(hide_password=False)
    command = [
        *(venv / "bin" / "uwsgi", "--http-socket", f"127.0.0.1:{port}", "-p", str(workers)),
        *("--module", "placement.wsgi.api", "--callable", "application"),
        *("--need-app", "--disable-logging", "--die-on-term"),
        # Else both workers would talk on the connections that the first one opened.
        "--lazy-apps",
    ]
    with tempfile.TemporaryDirectory(prefix="peer-conf-") as folder:
        Path(folder, "placement.conf").write_text(
            f"[api]\nauth_strategy = noauth2\n[placement_database]\nconnection = {url}\n"
        )
        settings = {"OS_PLACEMENT_CONFIG_DIR": folder}
        with _running("peer", command, settings, Address(port, "")) as server:
            yield server


@contextmanager
def both(database: URL, venv: Path | None, workers: int = 1) -> Iterator[tuple[Server, ...]]:
    """Run ours and then the peer, unless there is no environment of it, on the database."""
    with ExitStack() as stack:
        servers = [stack.enter_context(ours(database, workers))]
        if venv is not None:
            servers.append(stack.enter_context(peer(database, venv, workers)))
        yield tuple(servers)


@contextmanager
def _running(
    name: str, command: Sequence[object], settings: dict[str, str], address: Address
) -> Iterator[Server]:
    OUT.mkdir(exist_ok=True)
    log = OUT / f"{name}-{address.port}.log"
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [str(part) for part in command],
            env={**os.environ, **settings},
            stdout=sink,
            stderr=subprocess.STDOUT,
            cwd=OUT,
        )
    try:
        _await(process, address.port, log)
        yield Server(name, address, process)
    finally:
        _end(process)
    # Only reached where all went well: otherwise it is worth reading.
    log.unlink()


def _await(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
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
    raise RuntimeError(f"{log.stem} did not start; see bench/out/{log.name}")


def _end(process: subprocess.Popen[bytes]) -> None:
    family: list[int] = []
    with suppress(FileNotFoundError):  # it has ended already
        family += _family(process.pid)
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_STOP)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    # The workers of uwsgi do not end with the first of them, and would stay for good.
    for left in family[1:]:
        with suppress(ProcessLookupError):
            os.kill(left, signal.SIGKILL)


def _free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        found: int = trial.getsockname()[1]
        return found
