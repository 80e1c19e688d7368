# SPDX-License-Identifier: Apache-2.0
"""Writes that MariaDB acknowledges with a semi-synchronous replica survive a failover."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pymysql
import pytest
from sqlalchemy import insert

from placement_sched.db.tables import traits
from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.operations.prepare import sync
from tests.chaos.faults.cutting_proxy import run_database_proxy
from tests.conftest import make_settings
from tests.support.mariadb import MariaDB, run_mariadb
from tests.support.servers import wait_until

pytestmark = pytest.mark.chaos

TRAIT_NAME = "CUSTOM_LOST"
WAITING_COMMITS_QUERY = "SHOW STATUS LIKE 'Rpl_semi_sync_master_wait_sessions'"


@contextmanager
def run_semi_synchronous_pair(wait_point: str) -> Iterator[tuple[MariaDB, MariaDB]]:
    """Run a primary and a replica that must receive each commit before it is acknowledged.

    ``wait_point`` decides whether the primary's engine commits before or after that.
    """
    of_primary = (
        "--log-bin=log",
        # With the statement format a statement without changes is an event for the replica, too.
        "--binlog-format=ROW",
        "--server-id=1",
        "--rpl-semi-sync-master-enabled=ON",
        f"--rpl-semi-sync-master-wait-point={wait_point}",
        # Milliseconds until the primary would acknowledge a commit without the replica.
        "--rpl-semi-sync-master-timeout=86400000",
    )
    of_replica = ("--server-id=2", "--rpl-semi-sync-slave-enabled=ON")
    with run_mariadb(options=of_replica) as replica, run_mariadb(options=of_primary) as primary:
        replica.run(
            f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={primary.port}, "
            "MASTER_USER='root', MASTER_USE_GTID=slave_pos",
            "START SLAVE",
        )
        yield primary, replica


def has_trait(server: MariaDB, name: str) -> bool:
    """Return whether a server has the table of traits and a trait."""
    try:
        return server.query(f"SELECT 1 FROM placement.traits WHERE name = '{name}'") == (1,)
    except pymysql.err.ProgrammingError:
        return False


# The primary's engine commits when the replica has the transaction, or before that.
@pytest.mark.parametrize("wait_point", ["AFTER_SYNC", "AFTER_COMMIT"])
def test_unreplicated_write_is_not_acknowledged_after_a_restart(wait_point):
    with (
        run_semi_synchronous_pair(wait_point) as (primary, replica),
        run_database_proxy(primary.new_database()) as (proxy, url),
    ):
        # Only the timeout of reads is short. The query whether a COMMIT succeeded may take longer.
        database = Database(make_settings(url, placement_database__read_timeout=1))
        sync(database, utcnow)
        database.write(lambda connection: connection.execute(insert(traits).values(name="CUSTOM")))
        assert wait_until(lambda: has_trait(replica, "CUSTOM"))
        replica.run("STOP SLAVE IO_THREAD")
        is_written = threading.Event()

        def write_trait():
            database.write(
                lambda connection: connection.execute(insert(traits).values(name=TRAIT_NAME))
            )
            is_written.set()

        writer = threading.Thread(target=write_trait)
        writer.start()
        # The COMMIT waits for the replica, and is visible after a restart.
        assert wait_until(lambda: int(primary.query(WAITING_COMMITS_QUERY)[1]) == 1)
        primary.kill()
        primary.start()
        assert wait_until(lambda: has_trait(primary, TRAIT_NAME))
        assert not is_written.wait(3)
        primary.kill()
        proxy.set_database_address(("127.0.0.1", replica.port))
        writer.join(60)
        assert is_written.is_set()
        assert has_trait(replica, TRAIT_NAME)
        database.dispose()
