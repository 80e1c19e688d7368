# SPDX-License-Identifier: Apache-2.0
"""The servers that a benchmark starts: placement-sched and openstack-placement."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import orjson
import plain_http
import psutil
from harness import WrongResponse
from sqlalchemy.engine import URL

from tests.differential.comparison import PEER_PYTHON
from tests.nova.cloud.files import write_options
from tests.nova.cloud.processes import Program
from tests.support.loopback import reserve_port
from tests.support.servers import PROGRAMS_FOLDER, wait_until
from tests.support.versions import PEER_LATEST

#: Seconds for a server to start, which includes reading a very large cloud, and to stop.
MAX_START, MAX_STOP = 600.0, 10.0


class Request(NamedTuple):
    """A request. ``body`` is encoded as JSON unless it is None."""

    method: str
    path: str
    body: Any = None
    version: str = PEER_LATEST

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers of a request without a body."""
        return {"X-Auth-Token": "admin", "OpenStack-API-Version": f"placement {self.version}"}


class Reply(NamedTuple):
    """The status and body of a response."""

    status: int
    body: bytes


class Address(NamedTuple):
    """The address of a local server, and whether it keeps connections open."""

    name: str
    port: int
    prefix: str
    reuse: bool = True

    def message(self, request: Request) -> bytes:
        """Return the bytes of a request."""
        headers, body = request.headers, b""
        if request.body is not None:
            headers["Content-Type"] = "application/json"
            body = orjson.dumps(request.body)
        # The scheduler API and metrics of placement-sched have no prefix.
        prefix = "" if request.path.startswith(("/scheduler/", "/metrics")) else self.prefix
        lines = [f"{request.method} {prefix}{request.path} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return _client(self.port, self.reuse).message("\r\n".join(lines), body)

    def send(self, message: bytes) -> Reply:
        """Send a request of :meth:`message` on this process's connection to the server."""
        return Reply(*_client(self.port, self.reuse).get_response(message))

    def get_response(self, request: Request) -> Reply:
        """Send a request, and return the response."""
        return self.send(self.message(request))

    def close(self) -> None:
        """Close this process's connection to the server."""
        _client(self.port, self.reuse).close()

    def measure(self, request: Request, *statuses: int) -> tuple[float, Reply]:
        """Return the milliseconds and the response, which must have a given status."""
        message = self.message(request)
        start = time.perf_counter()
        reply = self.send(message)
        ms = (time.perf_counter() - start) * 1000
        if reply.status not in (statuses or (200,)):
            text = f"{reply.status} {reply.body[:500]!r}"
            raise WrongResponse(f"{self.name}, {request.method} {request.path}: {text}")
        return ms, reply

    def get(self, path: str) -> Any:
        """Return the document at a path."""
        return orjson.loads(self.measure(Request("GET", path))[1].body)


@cache
def _client(port: int, reuse: bool) -> plain_http.Client:
    return plain_http.Client(port, reuse=reuse)


@dataclass(frozen=True)
class Server:
    """A running server."""

    name: str
    address: Address
    program: Program

    def cpu_seconds(self) -> float:
        """Return the CPU time of all its processes, without the database."""
        return read_cpu_seconds(self.program)

    def resident_mb(self) -> float:
        """Return the resident size of its largest process, which is a worker."""
        return max(each.memory_info().rss for each in _find_processes(self.program)) / 1e6


def read_cpu_seconds(program: Program) -> float:
    """Return the CPU time of all processes of a program."""
    nanoseconds = 0
    for process in _find_processes(program):
        for task in Path(f"/proc/{process.pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
                nanoseconds += int((task / "schedstat").read_text().split()[0])
    return nanoseconds / 1e9


def _find_processes(program: Program) -> list[psutil.Process]:
    """Return the main process of a program and its descendants."""
    if program.process is None:
        return []
    process = psutil.Process(program.process.pid)
    return [process, *process.children(recursive=True)]


@contextmanager
def ours(database: URL, workers: int = 1, **variables: str) -> Iterator[Server]:
    """Run ``placement-sched serve`` on the database."""
    with reserve_port() as holder, TemporaryDirectory(prefix="bench-ours-") as folder:
        port = holder.getsockname()[1]
        command = [PROGRAMS_FOLDER / "placement-sched", "serve", "--port", str(port)]
        command += ["--workers", str(workers)]
        url = database.render_as_string(hide_password=False)
        settings = {name: value for name, value in os.environ.items() if name.startswith("OS_")}
        settings |= {"OS_PLACEMENT_DATABASE__CONNECTION": url, "OS_API__AUTH_STRATEGY": "noauth2"}
        program = Program("ours", command, Path(folder), {**settings, **variables})
        with _running(program, Address("ours", port, "/placement")) as server:
            yield server


@contextmanager
def peer(database: URL, workers: int = 1) -> Iterator[Server]:
    """Run openstack-placement under uwsgi on the database."""
    with reserve_port() as holder, TemporaryDirectory(prefix="bench-peer-") as folder:
        port = holder.getsockname()[1]
        address, uwsgi = f"127.0.0.1:{port}", PROGRAMS_FOLDER / "uwsgi"
        command = [uwsgi, "--http-socket", address, "-p", str(workers)]
        command += ["--module", "placement.wsgi.api", "--callable", "application"]
        # Without lazy-apps, all workers would use the connections of the first worker.
        command += ["--need-app", "--disable-logging", "--die-on-term", "--lazy-apps"]
        sections = {
            "api": {"auth_strategy": "noauth2"},
            "placement_database": {"connection": peer_url(database)},
        }
        write_options(Path(folder) / "placement.conf", sections)
        # uwsgi is in this environment, and its packages are in the other.
        (packages,) = PEER_PYTHON.parents[1].glob("lib/python3*/site-packages")
        variables = {"OS_PLACEMENT_CONFIG_DIR": folder, "PYTHONPATH": str(packages)}
        program = Program("peer", command, Path(folder), variables)
        with _running(program, Address("peer", port, "", reuse=False)) as server:
            yield server


@contextmanager
def _running(program: Program, address: Address) -> Iterator[Server]:
    program.start()

    def is_ready() -> bool:
        if program.process is None or program.process.poll() is not None:
            raise RuntimeError(f"{program.name} ended\n{program.read_log_tail(30)}")
        try:
            return address.get_response(Request("GET", "/")).status == 200
        except OSError:
            return False

    try:
        if not wait_until(is_ready, MAX_START):
            raise RuntimeError(f"{program.name} did not start\n{program.read_log_tail(30)}")
        yield Server(address.name, address, program)
    finally:
        with suppress(subprocess.TimeoutExpired):
            program.stop(MAX_STOP)


def peer_url(database: URL) -> str:
    """Return the URL with the driver of the peer. With psycopg 3 its claims fail."""
    if database.get_backend_name() == "postgresql":
        database = database.set(drivername="postgresql+psycopg2")
    return database.render_as_string(hide_password=False)


@contextmanager
def both(database: URL, *, has_peer: bool, workers: int = 1) -> Iterator[tuple[Server, ...]]:
    """Run placement-sched and, if ``has_peer``, openstack-placement on the database."""
    with ExitStack() as stack:
        servers = [stack.enter_context(ours(database, workers))]
        if has_peer:
            servers.append(stack.enter_context(peer(database, workers)))
        yield tuple(servers)
