# SPDX-License-Identifier: Apache-2.0
"""Database servers of a test run with their data in memory.

A run with ``--lane``, ``python -m tests.chaos`` and ``python -m tests.chaos.soak`` start PostgreSQL
and MariaDB if their programs are installed, and stop them at the end. MariaDB creates a schema five
times as fast in memory as on a disk.
``PLACEMENT_SCHED_TEST_POSTGRESQL`` and ``PLACEMENT_SCHED_TEST_MYSQL`` name another server.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.support.mariadb import run_mariadb
from tests.support.postgresql import is_installed, run_postgresql

#: A file system in memory, used if it has enough free space.
_SHM_PATH = Path("/dev/shm")  # noqa: S108 - folders with random names are made in it
#: Required free space in bytes.
_MIN_FREE_BYTES = 4 << 30
#: Several workers connect concurrently, each with a service of several processes.
_MAX_CONNECTIONS = 400
_MARIADB_OPTIONS = (
    f"--max-connections={_MAX_CONNECTIONS}",
    "--innodb-buffer-pool-size=256M",
    "--innodb-flush-log-at-trx-commit=0",
    "--character-set-server=utf8mb4",
    "--collation-server=utf8mb4_general_ci",
)
_POSTGRESQL_SETTINGS = {"max_connections": str(_MAX_CONNECTIONS), "shared_buffers": "128MB"}


@pytest.hookimpl(trylast=True)  # after conftest.py has read the options
def pytest_configure(config: pytest.Config) -> None:
    """Start the servers before the workers, which inherit their addresses."""
    lane = config.getoption("--lane", default=None)
    if lane in {None, "fast"} or hasattr(config, "workerinput"):
        return
    stack = ExitStack()
    config.add_cleanup(stack.close)
    stack.enter_context(run_database_servers())


@contextmanager
def run_database_servers() -> Iterator[None]:
    """Run the servers that are not named yet, and name them to this process and its children."""
    from tests.conftest import DATABASE_SERVER_URLS  # it imports this module

    place = _find_memory_folder()
    with ExitStack() as stack:
        if "PLACEMENT_SCHED_TEST_MYSQL" not in os.environ and shutil.which("mariadbd"):
            mariadb = stack.enter_context(run_mariadb(place, _MARIADB_OPTIONS))
            url = mariadb.url("", "root")
            DATABASE_SERVER_URLS["mysql"] = os.environ["PLACEMENT_SCHED_TEST_MYSQL"] = url
        if "PLACEMENT_SCHED_TEST_POSTGRESQL" not in os.environ and is_installed():
            postgresql = stack.enter_context(run_postgresql(place=place, **_POSTGRESQL_SETTINGS))
            url = postgresql.url()
            DATABASE_SERVER_URLS["postgresql"] = os.environ["PLACEMENT_SCHED_TEST_POSTGRESQL"] = url
        yield


def _find_memory_folder() -> Path | None:
    """Return the folder for the servers' data, or None for the folder of temporary files."""
    if not os.access(_SHM_PATH, os.W_OK) or shutil.disk_usage(_SHM_PATH).free < _MIN_FREE_BYTES:
        return None
    return _SHM_PATH
