# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL servers of a test's own: a primary with a hot standby, on free ports of loopback."""

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
from typing import Any

import psutil
import psycopg
import pytest

from tests.support.loopback import reserve_port

#: Set by CI: a PostgreSQL that is not installed is then a failure, not a skip.
REQUIRED = bool(os.environ.get("PLACEMENT_SCHED_REQUIRE_DATABASES"))
#: PostgreSQL refuses to run as root.
ACCOUNT = "postgres"
#: Where Debian installs each version.
_PROGRAMS = Path("/usr/lib/postgresql")
#: Seconds until a standby that does not become a primary has failed.
_PATIENCE = 120.0
#: What makes servers that are soon thrown away quick to start.
SETTINGS = {
    "fsync": "off",
    "listen_addresses": "127.0.0.1",
    "max_connections": "100",
    "shared_buffers": "32MB",
    "wal_level": "replica",
    "hot_standby": "on",
}


def is_installed() -> bool:
    """Return whether PostgreSQL's server programs are installed."""
    return any(_PROGRAMS.glob("*/bin/initdb"))


def find_programs() -> Path:
    """Return the folder of the newest PostgreSQL's programs; skip the test where there is none."""
    found = sorted(_PROGRAMS.glob("*/bin/initdb"))
    if not found:
        if REQUIRED:
            pytest.fail("PostgreSQL's server programs are not installed")
        pytest.skip("PostgreSQL's server programs are not installed")
    return found[-1].parent


def run_program(*arguments: str) -> None:
    """Run one of PostgreSQL's programs, under an account that it accepts."""
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
    #: What is set beside :data:`SETTINGS`.
    settings: Mapping[str, str] = field(default_factory=dict)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        own = {"port": str(self.port), "unix_socket_directories": "", **self.settings}
        options = {**SETTINGS, **own}
        words = " ".join(f"-c {name}={value or chr(39) * 2}" for name, value in options.items())
        log = self.data.with_suffix(".log")
        run_program("pg_ctl", "start", "-w", "-D", str(self.data), "-l", str(log), "-o", words)

    def stop(self, how: str = "fast") -> None:
        """Stop it; ``immediate`` is as if the machine lost its power."""
        run_program("pg_ctl", "stop", "-w", "-m", how, "-D", str(self.data))

    def kill(self) -> None:
        """End all its processes at once with SIGKILL."""
        postmaster = psutil.Process(int((self.data / "postmaster.pid").read_text().split()[0]))
        processes = [postmaster, *postmaster.children()]
        for one in processes:
            with suppress(psutil.NoSuchProcess):
                one.kill()
        _gone, alive = psutil.wait_procs(processes, timeout=60)
        assert not alive

    def runs(self) -> bool:
        """Return whether it has not ended, also where it does not answer just now."""
        with suppress(FileNotFoundError, IndexError):
            return psutil.pid_exists(int((self.data / "postmaster.pid").read_text().split()[0]))
        return False

    def answers(self) -> bool:
        """Return whether it takes connections."""
        with suppress(psycopg.OperationalError):
            self.ask("SELECT 1")
            return True
        return False

    def promote(self) -> None:
        """Make a standby a primary."""
        until = time.monotonic() + _PATIENCE
        # A server that begins anew, since one of its processes was killed, misses the first word.
        while not self._is_writable():
            assert time.monotonic() < until, "the standby was not promoted"
            with suppress(subprocess.CalledProcessError):
                run_program("pg_ctl", "promote", "-w", "-t", "5", "-D", str(self.data))

    def _is_writable(self) -> bool:
        with suppress(psycopg.OperationalError):
            return self.ask("SELECT pg_is_in_recovery()") == [False]
        return False

    def url(self, database: str = "postgres", *others: "PostgreSQL") -> str:
        """Return the SQLAlchemy URL of a database; with others, of whichever of them writes."""
        base = f"postgresql+psycopg://{ACCOUNT}@"
        if not others:
            return f"{base}127.0.0.1:{self.port}/{database}"
        hosts = "&".join(f"host=127.0.0.1:{one.port}" for one in (self, *others))
        return f"{base}/{database}?{hosts}&target_session_attrs=read-write"

    def ask(self, statement: str, database: str = "postgres") -> list[Any]:
        """Return the first values of the rows of a statement, which is committed at once."""
        where = f"host=127.0.0.1 port={self.port} user={ACCOUNT} dbname={database}"
        with psycopg.connect(where, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return [row[0] for row in cursor] if cursor.description else []


@contextmanager
def run_postgresql(
    folder: Path | None = None, *, place: Path | None = None, **settings: str
) -> Iterator[PostgreSQL]:
    """Give a server of one's own, which a test may treat as it likes.

    Its data is in ``folder``, which is then its account's, or in a temporary folder of ``place``.
    """
    with ExitStack() as stack:
        yield _start_postgresql(
            stack, _folder(stack, place) if folder is None else _own_folder(folder), settings
        )


@contextmanager
def run_primary_and_standby(
    *, synchronous: bool = False
) -> Iterator[tuple[PostgreSQL, PostgreSQL]]:
    """Give a primary and a hot standby of it, both running.

    Where it is ``synchronous``, the primary acknowledges no commit before the standby has it.
    """
    with ExitStack() as stack:
        folder = _folder(stack)
        primary = _start_postgresql(stack, folder)
        standby = PostgreSQL(folder / "standby", _free_port(stack))
        where = ("-h", "127.0.0.1", "-p", str(primary.port), "-U", ACCOUNT)
        run_program(
            "pg_basebackup", *where, "-c", "fast", "-R", "-X", "stream", "-D", str(standby.data)
        )
        standby.start()
        stack.callback(_stop_postgresql, standby)
        if synchronous:
            primary.ask("ALTER SYSTEM SET synchronous_standby_names = '*'")
            primary.ask("SELECT pg_reload_conf()")
        yield primary, standby


def _folder(stack: ExitStack, place: Path | None = None) -> Path:
    """Return a folder for the data of servers, which belongs to their account."""
    find_programs()
    folder = Path(tempfile.mkdtemp(prefix="placement_sched_postgresql_", dir=place))
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    return _own_folder(folder)


def _own_folder(folder: Path) -> Path:
    find_programs()
    if os.geteuid() == 0:
        account = pwd.getpwnam(ACCOUNT)
        os.chown(folder, account.pw_uid, account.pw_gid)
    return folder


def _start_postgresql(
    stack: ExitStack, folder: Path, settings: Mapping[str, str] = MappingProxyType({})
) -> PostgreSQL:
    """Return a new server that is running."""
    server = PostgreSQL(folder / "primary", _free_port(stack), settings)
    options = ("-N", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-U", ACCOUNT)
    run_program("initdb", *options, "-D", str(server.data))
    server.start()
    stack.callback(_stop_postgresql, server)
    return server


def _stop_postgresql(server: PostgreSQL) -> None:
    if (server.data / "postmaster.pid").exists():
        server.stop("immediate")


def _free_port(stack: ExitStack) -> int:
    return int(stack.enter_context(reserve_port()).getsockname()[1])
