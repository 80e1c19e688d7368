# SPDX-License-Identifier: Apache-2.0
"""A MySQL server for a test run, from the Debian that has a package of it.

The stable Debian has MariaDB only. ``mysql-server`` is in Debian's unstable suite, which mmdebstrap
installs into a folder that later runs use again. ``python -m tests.db.mysql`` runs pytest with
such a server in the place of MariaDB.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.support.mariadb import MariaDB
from tests.support.postgresql import reserve_free_port, skip_or_fail

_CACHE_FOLDER = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
_DEBIAN_FOLDER = _CACHE_FOLDER / "placement_sched" / "mysql"
_REQUIRED_PROGRAMS = ("mmdebstrap", "unshare", "chroot")
#: A copy of the archive may be older than the seven days that its signature allows.
_APT_OPTION = 'Acquire::Check-Valid-Until "false"'
#: Starts a server in the folder ``$0`` with its data in memory, which is freed when the server
#: ends. A server of another run has its own.
_START_SCRIPT = """
mount -t tmpfs tmpfs "$0/srv"
chroot "$0" chown mysql:mysql /srv
chroot "$0" mysqld --no-defaults --user=mysql --datadir=/srv/data --initialize-insecure
exec chroot "$0" mysqld --no-defaults --user=mysql --datadir=/srv/data "$@"
"""
_OPTIONS = (
    "--bind-address=127.0.0.1",
    "--innodb-buffer-pool-size=256M",
    "--innodb-flush-log-at-trx-commit=0",
    "--max-connections=400",
    "--mysqlx=OFF",
    "--pid-file=/srv/pid",
    "--socket=/srv/socket",
)


def install_mysql() -> Path:
    """Install MySQL unless it is cached, and return the root of its Debian."""
    missing = [program for program in _REQUIRED_PROGRAMS if shutil.which(program) is None]
    if missing or os.geteuid() != 0:
        skip_or_fail(f"MySQL needs root, and the programs {', '.join(_REQUIRED_PROGRAMS)}")
    root, ready = _DEBIAN_FOLDER / "root", _DEBIAN_FOLDER / "ready"
    if not ready.exists():
        shutil.rmtree(_DEBIAN_FOLDER, ignore_errors=True)
        _DEBIAN_FOLDER.mkdir(parents=True)
        subprocess.run(
            [
                *("mmdebstrap", "--quiet", "--variant=minbase", "--include=mysql-server"),
                *(f"--aptopt={_APT_OPTION}", "--dpkgopt=force-unsafe-io", "sid", root),
            ],
            check=True,
            timeout=3600,
        )
        ready.touch()
    return root


@contextmanager
def run_mysql(*options: str) -> Iterator[MariaDB]:
    """Run an empty server, whose root has no password, with further options."""
    root = install_mysql()
    with ExitStack() as stack:
        port = reserve_free_port(stack)
        start = ["unshare", "--mount", "sh", "-ec", _START_SCRIPT, str(root)]
        server = MariaDB(port, [*start, *_OPTIONS, f"--port={port}", *options])
        stack.callback(server.kill)
        server.start()
        yield server


def main() -> int:
    """Run pytest with the command's arguments on MySQL."""
    with run_mysql("--skip-log-bin") as server:
        print("MySQL", *(server.query("SELECT VERSION()") or ()), flush=True)
        environment = {**os.environ, "PLACEMENT_SCHED_TEST_MYSQL": server.url("", "root")}
        command = [sys.executable, "-m", "pytest", *sys.argv[1:]]
        return subprocess.run(command, env=environment, check=False, timeout=7200).returncode


if __name__ == "__main__":
    try:
        sys.exit(main())
    except pytest.skip.Exception as reason:
        print(f"skipped: {reason}")
