# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL servers for a test, on free ports of the loopback address."""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

import psutil
import psycopg
import pytest

from tests.support.loopback import reserve_port

#: Set by CI: the test then fails if PostgreSQL is not installed.
ARE_DATABASES_REQUIRED = bool(os.environ.get("PLACEMENT_SCHED_REQUIRE_DATABASES"))
#: Account of the servers. PostgreSQL does not run as root.
ACCOUNT = "postgres"
#: Debian's folder of each version.
_DEBIAN_PROGRAMS_FOLDER = Path("/usr/lib/postgresql")
#: Seconds until the promotion of a standby fails.
_TIMEOUT_SECONDS = 120.0
#: Settings of a temporary server that starts fast.
DEFAULT_POSTGRESQL_SETTINGS = {
    "fsync": "off",
    "listen_addresses": "127.0.0.1",
    "max_connections": "100",
    "shared_buffers": "32MB",
    "wal_level": "replica",
    "hot_standby": "on",
}


def skip_or_fail(reason: str) -> NoReturn:
    """Skip the test, or fail it in CI."""
    (pytest.fail if ARE_DATABASES_REQUIRED else pytest.skip)(reason)


def create_server_folder(
    stack: ExitStack, name: str, account: str, place: Path | None = None
) -> Path:
    """Return a temporary folder of ``place`` that belongs to an account."""
    folder = Path(tempfile.mkdtemp(prefix=f"placement_sched_{name}_", dir=place))
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    return _set_folder_owner(folder, account)


def reserve_free_port(stack: ExitStack) -> int:
    return int(stack.enter_context(reserve_port()).getsockname()[1])


def is_installed() -> bool:
    """Return whether PostgreSQL's server programs are installed."""
    return any(_DEBIAN_PROGRAMS_FOLDER.glob("*/bin/initdb"))


def find_programs() -> Path:
    """Return the folder of PostgreSQL's newest programs, or skip the test."""
    programs = sorted(_DEBIAN_PROGRAMS_FOLDER.glob("*/bin/initdb"))
    if not programs:
        skip_or_fail("PostgreSQL's server programs are not installed")
    return programs[-1].parent


def run_postgresql_program(*arguments: str) -> None:
    """Run a program of PostgreSQL, under the account of the servers if this user is root."""
    name, *rest = arguments
    command = [str(find_programs() / name), *rest]
    if os.geteuid() == 0:
        command = ["setpriv", f"--reuid={ACCOUNT}", f"--regid={ACCOUNT}", "--init-groups", *command]
    subprocess.run(
        command, check=True, timeout=120, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    )


@dataclass(frozen=True)
class PostgreSQL:
    """A server with its data in a folder."""

    data: Path
    port: int
    #: Settings that override :data:`SETTINGS`.
    settings: Mapping[str, str] = field(default_factory=dict)

    def start(self) -> None:
        """Start the server, and wait until it accepts connections."""
        own = {"port": str(self.port), "unix_socket_directories": "", **self.settings}
        options = {**DEFAULT_POSTGRESQL_SETTINGS, **own}
        words = " ".join(f"-c {name}={value or chr(39) * 2}" for name, value in options.items())
        log = self.data.with_suffix(".log")
        run_postgresql_program(
            "pg_ctl", "start", "-w", "-D", str(self.data), "-l", str(log), "-o", words
        )

    def stop(self, how: str = "fast") -> None:
        """Stop the server. The mode ``immediate`` is like a power failure."""
        run_postgresql_program("pg_ctl", "stop", "-w", "-m", how, "-D", str(self.data))

    def kill(self) -> None:
        """Send SIGKILL to all processes of the server."""
        postmaster = psutil.Process(int((self.data / "postmaster.pid").read_text().split()[0]))
        processes = [postmaster, *postmaster.children()]
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        _gone, alive = psutil.wait_procs(processes, timeout=60)
        assert not alive

    def is_alive(self) -> bool:
        """Return whether the server is alive, even if it accepts no connections."""
        with suppress(FileNotFoundError, IndexError):
            return psutil.pid_exists(int((self.data / "postmaster.pid").read_text().split()[0]))
        return False

    def is_ready(self) -> bool:
        """Return whether the server accepts connections."""
        with suppress(psycopg.OperationalError):
            self.query("SELECT 1")
            return True
        return False

    def promote(self) -> None:
        """Make a standby a primary."""
        until = time.monotonic() + _TIMEOUT_SECONDS
        # A server that restarts after the death of a process ignores the first request.
        while not self._is_writable():
            assert time.monotonic() < until, "the standby was not promoted"
            with suppress(subprocess.CalledProcessError):
                run_postgresql_program("pg_ctl", "promote", "-w", "-t", "5", "-D", str(self.data))

    def _is_writable(self) -> bool:
        with suppress(psycopg.OperationalError):
            return self.query("SELECT pg_is_in_recovery()") == [False]
        return False

    def url(self, database: str = "postgres", *others: "PostgreSQL") -> str:
        """Return the SQLAlchemy URL of a database on the writable server of this and others."""
        base = f"postgresql+psycopg://{ACCOUNT}@"
        if not others:
            return f"{base}127.0.0.1:{self.port}/{database}"
        hosts = "&".join(f"host=127.0.0.1:{server.port}" for server in (self, *others))
        return f"{base}/{database}?{hosts}&target_session_attrs=read-write"

    def query(self, statement: str, database: str = "postgres") -> list[Any]:
        """Run and commit a statement and return the first value of each row."""
        address = f"host=127.0.0.1 port={self.port} user={ACCOUNT} dbname={database}"
        with psycopg.connect(address, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return [row[0] for row in cursor] if cursor.description else []


@contextmanager
def run_postgresql(
    folder: Path | None = None, *, place: Path | None = None, **settings: str
) -> Iterator[PostgreSQL]:
    """Run a server with its data in ``folder``, or in a temporary folder of ``place``.

    ``folder`` then belongs to the account of the servers.
    """
    with ExitStack() as stack:
        yield _start_postgresql(
            stack,
            _create_folder(stack, place) if folder is None else _set_folder_owner(folder, ACCOUNT),
            settings,
        )


@contextmanager
def run_primary_and_standby(
    *, synchronous: bool = False
) -> Iterator[tuple[PostgreSQL, PostgreSQL]]:
    """Run a primary and its hot standby.

    If ``synchronous``, the standby must have each commit before the primary acknowledges it.
    """
    with ExitStack() as stack:
        folder = _create_folder(stack)
        primary = _start_postgresql(stack, folder)
        standby = PostgreSQL(folder / "standby", reserve_free_port(stack))
        address = ("-h", "127.0.0.1", "-p", str(primary.port), "-U", ACCOUNT)
        run_postgresql_program(
            "pg_basebackup", *address, "-c", "fast", "-R", "-X", "stream", "-D", str(standby.data)
        )
        standby.start()
        stack.callback(_stop_postgresql, standby)
        if synchronous:
            primary.query("ALTER SYSTEM SET synchronous_standby_names = '*'")
            primary.query("SELECT pg_reload_conf()")
        yield primary, standby


def _create_folder(stack: ExitStack, place: Path | None = None) -> Path:
    """Return a temporary folder that belongs to the account of the servers."""
    find_programs()
    return create_server_folder(stack, "postgresql", ACCOUNT, place)


def _set_folder_owner(folder: Path, account: str) -> Path:
    if os.geteuid() == 0:
        owner = pwd.getpwnam(account)
        os.chown(folder, owner.pw_uid, owner.pw_gid)
    return folder


def _start_postgresql(
    stack: ExitStack, folder: Path, settings: Mapping[str, str] = MappingProxyType({})
) -> PostgreSQL:
    """Return a new server that runs."""
    server = PostgreSQL(folder / "primary", reserve_free_port(stack), settings)
    options = ("-N", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-U", ACCOUNT)
    run_postgresql_program("initdb", *options, "-D", str(server.data))
    server.start()
    stack.callback(_stop_postgresql, server)
    return server


def _stop_postgresql(server: PostgreSQL) -> None:
    if (server.data / "postmaster.pid").exists():
        server.stop("immediate")
