# SPDX-License-Identifier: Apache-2.0
"""A MariaDB server for a test, on a free port of the loopback address."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql

from tests.support.postgresql import create_server_folder, reserve_free_port, skip_or_fail

#: Owner of the server's files. MariaDB does not run as root.
ACCOUNT = "mysql"
#: Seconds until the start of a server fails.
_TIMEOUT_SECONDS = 60.0
#: Options of a fast temporary server. A commit survives the end of the server, not of the machine.
_OPTIONS_WITHOUT_DURABILITY = (
    "--skip-log-bin",
    "--innodb-flush-log-at-trx-commit=2",
    "--innodb-buffer-pool-size=16M",
    "--innodb-log-file-size=8M",
    "--skip-name-resolve",
)


@dataclass
class MariaDB:
    """A server and the command that starts it."""

    port: int
    command: list[str]
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def start(self, *options: str) -> None:
        """Start the server with more options, and wait until it accepts connections."""
        self.process = subprocess.Popen(
            [*self.command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until = time.monotonic() + _TIMEOUT_SECONDS
        while not self.is_ready():
            assert self.process.poll() is None, "MariaDB ended as it started"
            assert time.monotonic() < until, "MariaDB does not answer"
            time.sleep(0.05)

    def restart(self, *options: str) -> None:
        """Shut the server down, and start it with more options."""
        assert self.process is not None
        self.process.terminate()
        self.process.wait(timeout=60)
        self.start(*options)

    def kill(self) -> None:
        """Send SIGKILL."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(timeout=60)
            self.process = None

    def url(self, database: str, user: str) -> str:
        """Return the SQLAlchemy URL of a database for a user without a password."""
        return f"mysql+pymysql://{user}@127.0.0.1:{self.port}/{database}?ssl_disabled=true"

    def run(self, *statements: str) -> None:
        """Run statements as root."""
        with self._connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def new_database(self) -> str:
        """Create a database and a user with all privileges on it and return its URL."""
        self.run(
            "CREATE DATABASE placement",
            "CREATE USER placement@127.0.0.1",
            "GRANT ALL ON placement.* TO placement@127.0.0.1",
        )
        return self.url("placement", "placement")

    def is_alive(self) -> bool:
        """Return whether the process is alive, even if it accepts no connections."""
        return self.process is not None and self.process.poll() is None

    def is_ready(self) -> bool:
        """Return whether it accepts connections."""
        with suppress(pymysql.err.OperationalError), self._connect():
            return True
        return False

    def query(self, statement: str) -> tuple[Any, ...] | None:
        """Return the first row of a statement that root runs."""
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            row: tuple[Any, ...] | None = cursor.fetchone()
            return row

    def _connect(self) -> Any:
        return pymysql.connect(
            host="127.0.0.1", port=self.port, user="root", ssl_disabled=True, autocommit=True
        )


@contextmanager
def run_mariadb(place: Path | None = None, options: Iterable[str] = ()) -> Iterator[MariaDB]:
    """Run a server without databases, whose users other than root have no privileges yet.

    Its data is in a temporary folder of ``place``. ``options`` follow the default options.
    """
    install, program = shutil.which("mariadb-install-db"), shutil.which("mariadbd")
    if install is None or program is None:
        skip_or_fail("MariaDB's server programs are not installed")
    with ExitStack() as stack:
        folder = create_server_folder(stack, "mariadb", ACCOUNT, place)
        user = [f"--user={ACCOUNT}"] if os.geteuid() == 0 else []
        data = [f"--datadir={folder / 'data'}", f"--tmpdir={folder}", *user]
        create = [install, "--no-defaults", "--skip-test-db", "--auth-root-authentication-method"]
        create[-1] += "=normal"
        subprocess.run([*create, *data], check=True, timeout=120, stdout=subprocess.DEVNULL)
        port = reserve_free_port(stack)
        address = ["--bind-address=127.0.0.1", f"--port={port}", f"--socket={folder / 'socket'}"]
        server = MariaDB(
            port,
            [program, "--no-defaults", *data, *address, *_OPTIONS_WITHOUT_DURABILITY, *options],
        )
        stack.callback(server.kill)
        server.start()
        yield server
