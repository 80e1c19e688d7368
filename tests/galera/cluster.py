# SPDX-License-Identifier: Apache-2.0
"""Galera clusters of three MariaDB nodes on free ports of loopback."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from configparser import ConfigParser
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql
import pytest

from tests.support.loopback import reserve_port

#: Set by CI: without Galera a test then fails and is not skipped.
IS_GALERA_REQUIRED = bool(os.environ.get("PLACEMENT_SCHED_REQUIRE_GALERA"))
WSREP_PROVIDER = Path("/usr/lib/galera/libgalera_smm.so")
#: Programs that a cluster needs in addition to the provider.
REQUIRED_PROGRAMS = ("mariadbd", "mariadb-install-db", "rsync", "setpriv")
#: The account of the servers if root runs the tests.
OS_ACCOUNT = "mysql"
DATABASE_ACCOUNT, DATABASE_PASSWORD = "sched", "secret"
NODE_COUNT = 3
#: Maximum seconds until a node has joined, or has noticed that another node is gone.
MAX_WAIT_SECONDS = 120.0
#: The settings of a node in the guide for operators.
NODE_CONFIGURATION = Path(__file__).parents[2] / "deploy/galera/node.cnf"
#: Further settings: little memory, and addresses of loopback only.
MARIADB_TEST_SETTINGS = {
    "bind-address": "127.0.0.1",
    "innodb-buffer-pool-size": "32M",
    "innodb-log-file-size": "16M",
    "max-connections": "200",
    "performance-schema": "OFF",
    "skip-name-resolve": "ON",
    "wsrep-node-address": "127.0.0.1",
}
#: A large enough write-set cache for short absences, and timeouts that detect a failed node in
#: seconds.
WSREP_PROVIDER_SETTINGS = {
    "gcache.size": "64M",
    "evs.keepalive_period": "PT0.5S",
    "evs.suspect_timeout": "PT3S",
    "evs.inactive_timeout": "PT6S",
    "pc.recovery": "false",
}


def _read_documented_settings() -> dict[str, str]:
    parser = ConfigParser()
    parser.read(NODE_CONFIGURATION)
    return {name.replace("_", "-"): value for name, value in parser["galera"].items()}


def find_missing_programs() -> str | None:
    """Return a sentence that names the missing programs, or None."""
    lacking = [name for name in REQUIRED_PROGRAMS if shutil.which(name) is None]
    if not WSREP_PROVIDER.exists():
        lacking.append(str(WSREP_PROVIDER))
    return f"Galera is not installed: {', '.join(lacking)} is missing" if lacking else None


@dataclass
class GaleraNode:
    """A server of a cluster and the folder of its data."""

    folder: Path
    port: int
    group_port: int
    transfer_port: int
    increment_port: int
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def log(self) -> Path:
        return self.folder / "error.log"

    def start(self, others: str = "") -> None:
        """Start the server in the cluster of these addresses, or as the first node of a cluster."""
        options = {
            **_read_documented_settings(),
            **MARIADB_TEST_SETTINGS,
            "datadir": self.folder / "data",
            "port": self.port,
            "socket": self.folder / "s",
            "pid-file": self.folder / "pid",
            "log-error": self.log,
            "wsrep-cluster-address": f"gcomm://{others}",
            "wsrep-sst-receive-address": f"127.0.0.1:{self.transfer_port}",
            "wsrep-provider-options": ";".join(
                f"{name}={value}" for name, value in self._build_provider_settings().items()
            ),
        }
        words = [f"--{name}={value}" for name, value in options.items()]
        # The server ends with this process.
        command = _build_system_account_command(
            "--pdeathsig", "KILL", "mariadbd", "--no-defaults", *words
        )
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def _build_provider_settings(self) -> dict[str, object]:
        return {
            **WSREP_PROVIDER_SETTINGS,
            "gmcast.listen_addr": f"tcp://127.0.0.1:{self.group_port}",
            "ist.recv_addr": f"127.0.0.1:{self.increment_port}",
        }

    def url(self, database: str = "") -> str:
        address = f"127.0.0.1:{self.port}/{database}"
        return f"mysql+pymysql://{DATABASE_ACCOUNT}:{DATABASE_PASSWORD}@{address}?ssl_disabled=true"

    def query(self, statement: str, database: str | None = None) -> list[tuple[Any, ...]]:
        """Execute a statement, commit it, and return its rows."""
        with (
            pymysql.connect(
                host="127.0.0.1",
                port=self.port,
                user=DATABASE_ACCOUNT,
                password=DATABASE_PASSWORD,
                database=database,
                autocommit=True,
                connect_timeout=10,
                read_timeout=60,
                ssl_disabled=True,
            ) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(statement)
            return list(cursor.fetchall())

    def read_status_variable(self, name: str) -> str | None:
        """Return a status variable of Galera, or None if the node does not answer."""
        with suppress(pymysql.MySQLError):
            for _name, value in self.query(f"SHOW GLOBAL STATUS LIKE 'wsrep_{name}'"):
                return str(value)
        return None

    def wait_until(self, is_met: Callable[[], bool], problem: str) -> None:
        """Wait until a condition is met, or fail if the node ends or after ``MAX_WAIT_SECONDS``."""
        end = time.monotonic() + MAX_WAIT_SECONDS
        while not is_met():
            has_ended = self.process is not None and self.process.poll() is not None
            if has_ended or time.monotonic() > end:
                log = self.log.read_text(errors="replace")[-5000:] if self.log.exists() else ""
                pytest.fail(f"the node at {self.port} {problem}: {log}")
            time.sleep(0.1)

    def wait_for_members(self, number: int) -> None:
        def is_synced() -> bool:
            state = (
                self.read_status_variable("local_state_comment"),
                self.read_status_variable("cluster_size"),
            )
            return state == ("Synced", str(number))

        self.wait_until(is_synced, f"is not in a cluster of {number}")

    def kill(self) -> None:
        """End the server as a power failure would."""
        self._end_process(signal.SIGKILL)

    def stop(self) -> None:
        self._end_process(signal.SIGTERM)

    def _end_process(self, number: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(timeout=MAX_WAIT_SECONDS)
            self.process = None


@dataclass(frozen=True)
class GaleraCluster:
    """Three nodes that all accept writes."""

    nodes: tuple[GaleraNode, ...]

    @property
    def addresses(self) -> str:
        return ",".join(f"127.0.0.1:{node.group_port}" for node in self.nodes)

    def start(self) -> None:
        first, *others = self.nodes
        first.start()
        first.wait_for_members(1)
        for number, node in enumerate(others, start=2):
            node.start(self.addresses)
            node.wait_for_members(number)

    def rejoin(self, node: GaleraNode) -> None:
        """Start an ended node, and wait until it serves."""
        node.start(self.addresses)
        node.wait_for_members(len(self.running_nodes))

    def wait_until_nodes_applied_all_commits(self) -> None:
        """Wait until each node has applied all commits."""
        for node in self.running_nodes:
            node.query("SET STATEMENT wsrep_sync_wait = 1 FOR SELECT 1")

    @property
    def running_nodes(self) -> list[GaleraNode]:
        return [node for node in self.nodes if node.process is not None]


@contextmanager
def run_cluster() -> Iterator[GaleraCluster]:
    """Start a cluster of three nodes, or skip the test without Galera."""
    if problem := find_missing_programs():
        if IS_GALERA_REQUIRED:
            pytest.fail(problem)
        pytest.skip(problem)
    folder = Path(tempfile.mkdtemp(prefix="placement_sched_galera_"))
    _set_owner_to_system_account(folder)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        nodes = tuple(_create_node(stack, folder / f"node{number}") for number in range(NODE_COUNT))
        cluster = GaleraCluster(nodes)
        stack.callback(_kill_nodes, cluster)
        cluster.start()
        yield cluster


def _kill_nodes(cluster: GaleraCluster) -> None:
    for node in cluster.running_nodes:
        node.kill()


def _build_system_account_command(*words: str) -> list[str]:
    """Return a command that runs under an account other than root.

    Otherwise rsync, which copies a node's data, would write files that the server cannot read.
    """
    if os.geteuid() != 0:
        return ["setpriv", *words]
    return ["setpriv", f"--reuid={OS_ACCOUNT}", f"--regid={OS_ACCOUNT}", "--init-groups", *words]


def _set_owner_to_system_account(folder: Path) -> None:
    if os.geteuid() == 0:
        account = pwd.getpwnam(OS_ACCOUNT)
        os.chown(folder, account.pw_uid, account.pw_gid)


def _create_node(stack: ExitStack, folder: Path) -> GaleraNode:
    folder.mkdir()
    _set_owner_to_system_account(folder)
    # Create the usual tables and an account with all privileges from every host.
    accounts = folder / "accounts.sql"
    accounts.write_text(
        "FLUSH PRIVILEGES;\n"
        f"CREATE USER {DATABASE_ACCOUNT}@'%' IDENTIFIED BY '{DATABASE_PASSWORD}';\n"
        f"GRANT ALL ON *.* TO {DATABASE_ACCOUNT}@'%';\n"
        "CREATE USER haproxy@'%';\n"
    )
    options = [f"--datadir={folder / 'data'}", f"--extra-file={accounts}"]
    subprocess.run(
        _build_system_account_command(
            "mariadb-install-db", "--no-defaults", "--skip-test-db", *options
        ),
        check=True,
        timeout=MAX_WAIT_SECONDS,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    ports = [int(stack.enter_context(reserve_port()).getsockname()[1]) for _ in range(4)]
    return GaleraNode(folder, *ports)
