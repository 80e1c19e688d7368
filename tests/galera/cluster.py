# SPDX-License-Identifier: Apache-2.0
"""Galera clusters of a test's own: three nodes of MariaDB on free ports of loopback."""

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

#: Set by CI: a Galera that is not installed is then a failure, not a skip.
REQUIRED = bool(os.environ.get("PLACEMENT_SCHED_REQUIRE_GALERA"))
PROVIDER = Path("/usr/lib/galera/libgalera_smm.so")
#: What the tests need beside the provider.
PROGRAMS = ("mariadbd", "mariadb-install-db", "rsync", "setpriv")
#: Whom the servers run as where the tests are the superuser's.
SYSTEM = "mysql"
ACCOUNT, PASSWORD = "sched", "secret"
NODES = 3
#: Seconds within which a node is expected to have joined, or to have noticed that one is away.
PATIENCE = 120.0
#: The settings of a node that operators are given.
NODE = Path(__file__).parents[2] / "deploy/galera/node.cnf"
#: What else the tests set: small, and for addresses of loopback alone.
SETTINGS = {
    "bind-address": "127.0.0.1",
    "innodb-buffer-pool-size": "32M",
    "innodb-log-file-size": "16M",
    "max-connections": "200",
    "performance-schema": "OFF",
    "skip-name-resolve": "ON",
    "wsrep-node-address": "127.0.0.1",
}
#: The first sends what was written to nodes that were away for a moment; by the others a node that
#: is gone is known to be in some seconds, and a killed one finds the others again.
PROVIDER_SETTINGS = {
    "gcache.size": "64M",
    "evs.keepalive_period": "PT0.5S",
    "evs.suspect_timeout": "PT3S",
    "evs.inactive_timeout": "PT6S",
    "pc.recovery": "false",
}


def _documented_settings() -> dict[str, str]:
    parser = ConfigParser()
    parser.read(NODE)
    return {name.replace("_", "-"): value for name, value in parser["galera"].items()}


def missing_programs() -> str | None:
    """Return what a cluster needs and is not installed; None where all is."""
    lacking = [one for one in PROGRAMS if shutil.which(one) is None]
    if not PROVIDER.exists():
        lacking.append(str(PROVIDER))
    return f"Galera is not installed: {', '.join(lacking)} is missing" if lacking else None


@dataclass
class Node:
    """A server of a cluster, with its data in a folder."""

    folder: Path
    port: int
    group_port: int
    transfer_port: int
    increment_port: int
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def log(self) -> Path:
        """Return the file of its error log."""
        return self.folder / "error.log"

    def start(self, others: str = "") -> None:
        """Start it in the cluster of these addresses, or as the first node of a new one."""
        options = {
            **_documented_settings(),
            **SETTINGS,
            "datadir": self.folder / "data",
            "port": self.port,
            "socket": self.folder / "s",
            "pid-file": self.folder / "pid",
            "log-error": self.log,
            "wsrep-cluster-address": f"gcomm://{others}",
            "wsrep-sst-receive-address": f"127.0.0.1:{self.transfer_port}",
            "wsrep-provider-options": ";".join(
                f"{name}={value}" for name, value in self._provider_settings().items()
            ),
        }
        words = [f"--{name}={value}" for name, value in options.items()]
        # With this process it ends as well.
        command = _system_account_command(
            "--pdeathsig", "KILL", "mariadbd", "--no-defaults", *words
        )
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def _provider_settings(self) -> dict[str, object]:
        return {
            **PROVIDER_SETTINGS,
            "gmcast.listen_addr": f"tcp://127.0.0.1:{self.group_port}",
            "ist.recv_addr": f"127.0.0.1:{self.increment_port}",
        }

    def url(self, database: str = "") -> str:
        """Return the SQLAlchemy URL of a database."""
        where = f"127.0.0.1:{self.port}/{database}"
        return f"mysql+pymysql://{ACCOUNT}:{PASSWORD}@{where}?ssl_disabled=true"

    def query(self, statement: str, database: str | None = None) -> list[tuple[Any, ...]]:
        """Return the rows of a statement, which is committed at once."""
        with (
            pymysql.connect(
                host="127.0.0.1",
                port=self.port,
                user=ACCOUNT,
                password=PASSWORD,
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

    def status(self, name: str) -> str | None:
        """Return a status variable of Galera; None where the node does not answer."""
        with suppress(pymysql.MySQLError):
            for _name, value in self.query(f"SHOW GLOBAL STATUS LIKE 'wsrep_{name}'"):
                return str(value)
        return None

    def wait_until(self, true: Callable[[], bool], what: str) -> None:
        """Ask again until it is so; fail where the node ends meanwhile, or it never is."""
        end = time.monotonic() + PATIENCE
        while not true():
            ended = self.process is not None and self.process.poll() is not None
            if ended or time.monotonic() > end:
                told = self.log.read_text(errors="replace")[-5000:] if self.log.exists() else ""
                pytest.fail(f"the node at {self.port} {what}: {told}")
            time.sleep(0.1)

    def wait_for_members(self, number: int) -> None:
        """Wait until it serves in a cluster of so many."""

        def served() -> bool:
            known = (self.status("local_state_comment"), self.status("cluster_size"))
            return known == ("Synced", str(number))

        self.wait_until(served, f"is not in a cluster of {number}")

    def kill(self) -> None:
        """End it as if its machine lost its power."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it in order."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(timeout=PATIENCE)
            self.process = None


@dataclass(frozen=True)
class Cluster:
    """Three nodes; each takes writes."""

    nodes: tuple[Node, ...]

    @property
    def addresses(self) -> str:
        """Return where its nodes speak to each other."""
        return ",".join(f"127.0.0.1:{one.group_port}" for one in self.nodes)

    def start(self) -> None:
        """Start all, one after the other."""
        first, *others = self.nodes
        first.start()
        first.wait_for_members(1)
        for number, one in enumerate(others, start=2):
            one.start(self.addresses)
            one.wait_for_members(number)

    def rejoin(self, node: Node) -> None:
        """Start a node that was away, and wait until it serves."""
        node.start(self.addresses)
        node.wait_for_members(len(self.running))

    def settle(self) -> None:
        """Wait until each node shows all that was committed on any."""
        for one in self.running:
            one.query("SET STATEMENT wsrep_sync_wait = 1 FOR SELECT 1")

    @property
    def running(self) -> list[Node]:
        """Return the nodes that were started and not ended."""
        return [one for one in self.nodes if one.process is not None]

    def count(self, name: str) -> int:
        """Return the sum of a counter of Galera over all nodes that answer."""
        return sum(int(one.status(name) or 0) for one in self.running)


@contextmanager
def new_cluster() -> Iterator[Cluster]:
    """Give a cluster of three nodes, all running; skip the test where Galera is not installed."""
    if lacking := missing_programs():
        if REQUIRED:
            pytest.fail(lacking)
        pytest.skip(lacking)
    folder = Path(tempfile.mkdtemp(prefix="placement_sched_galera_"))
    _give_to_system_account(folder)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        nodes = tuple(_new_node(stack, folder / f"node{number}") for number in range(NODES))
        cluster = Cluster(nodes)
        stack.callback(_kill_nodes, cluster)
        cluster.start()
        yield cluster


def _kill_nodes(cluster: Cluster) -> None:
    for one in cluster.running:
        one.kill()


def _system_account_command(*words: str) -> list[str]:
    """Return a command under an account that is not the superuser's.

    rsync, which copies a node's data to another, would else write as an account that may not.
    """
    if os.geteuid() != 0:
        return ["setpriv", *words]
    return ["setpriv", f"--reuid={SYSTEM}", f"--regid={SYSTEM}", "--init-groups", *words]


def _give_to_system_account(folder: Path) -> None:
    if os.geteuid() == 0:
        account = pwd.getpwnam(SYSTEM)
        os.chown(folder, account.pw_uid, account.pw_gid)


def _new_node(stack: ExitStack, folder: Path) -> Node:
    folder.mkdir()
    _give_to_system_account(folder)
    # Beside the usual tables an account that may do everything, from everywhere.
    accounts = folder / "accounts.sql"
    accounts.write_text(
        "FLUSH PRIVILEGES;\n"
        f"CREATE USER {ACCOUNT}@'%' IDENTIFIED BY '{PASSWORD}';\n"
        f"GRANT ALL ON *.* TO {ACCOUNT}@'%';\n"
        "CREATE USER haproxy@'%';\n"
    )
    options = [f"--datadir={folder / 'data'}", f"--extra-file={accounts}"]
    subprocess.run(
        _system_account_command("mariadb-install-db", "--no-defaults", "--skip-test-db", *options),
        check=True,
        timeout=PATIENCE,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    ports = [int(stack.enter_context(reserve_port()).getsockname()[1]) for _ in range(4)]
    return Node(folder, *ports)
