# SPDX-License-Identifier: Apache-2.0
"""Writes that MySQL's group replication rejects at COMMIT."""

from collections.abc import Iterator
from contextlib import ExitStack
from uuid import uuid4

import pymysql
import pytest
from sqlalchemy import text

from placement_sched.db.errors import SERIALIZATION
from placement_sched.db.transaction import Database
from placement_sched.model.request_stats import begin_stats, get_request_stats
from tests.conftest import make_settings
from tests.db.mysql import run_mysql
from tests.support.loopback import reserve_port
from tests.support.mariadb import MariaDB
from tests.support.servers import wait_until

pytestmark = pytest.mark.exhaustive

ONLINE_COUNT = (
    "SELECT COUNT(*) FROM performance_schema.replication_group_members "
    "WHERE member_state = 'ONLINE'"
)


@pytest.fixture(scope="module")
def group() -> Iterator[list[MariaDB]]:
    """Run two members that both take writes, with a table that both have."""
    with ExitStack() as stack:
        ports = [stack.enter_context(reserve_port()).getsockname()[1] for _ in range(2)]
        addresses = [f"127.0.0.1:{port}" for port in ports]
        name = uuid4()
        members = [
            stack.enter_context(
                run_mysql(
                    f"--server-id={number}",
                    *("--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--log-bin=binlog"),
                    *("--report-host=127.0.0.1", "--plugin-load-add=group_replication.so"),
                    f"--loose-group-replication-group-name={name}",
                    f"--loose-group-replication-local-address={address}",
                    f"--loose-group-replication-group-seeds={','.join(addresses)}",
                    "--loose-group-replication-single-primary-mode=OFF",
                    "--loose-group-replication-start-on-boot=OFF",
                    "--loose-group-replication-recovery-get-public-key=ON",
                )
            )
            for number, address in enumerate(addresses, start=1)
        ]
        for member in members:
            member.run(
                "CHANGE REPLICATION SOURCE TO SOURCE_USER = 'root' "
                "FOR CHANNEL 'group_replication_recovery'"
            )
        first, second = members
        first.run(
            "SET GLOBAL group_replication_bootstrap_group = ON",
            "START GROUP_REPLICATION",
            "SET GLOBAL group_replication_bootstrap_group = OFF",
            "CREATE DATABASE placement",
            "CREATE TABLE placement.numbers (id INT PRIMARY KEY, value INT NOT NULL)",
            "INSERT INTO placement.numbers VALUES (1, 0)",
            "CREATE TABLE placement.others (id INT PRIMARY KEY)",
        )
        second.run("START GROUP_REPLICATION")
        assert wait_until(lambda: first.query(ONLINE_COUNT) == (2,))
        assert wait_until(lambda: read_number(second) == 0)
        yield members


def read_number(member: MariaDB) -> int | None:
    row = member.query("SELECT value FROM placement.numbers WHERE id = 1")
    return None if row is None else int(row[0])


def test_write_that_the_group_rejects_at_commit_is_repeated(group):
    """The first member has not applied a write of the second member."""
    first, second = group
    database = Database(make_settings(first.url("placement", "root")))
    attempts = []

    def add_one(connection):
        attempts.append(connection)
        if len(attempts) > 1:
            holder.close()
            assert wait_until(lambda: read_number(first) == 10)
        connection.execute(text("UPDATE numbers SET value = value + 1 WHERE id = 1"))
        if len(attempts) == 1:
            second.run(
                "BEGIN",
                "INSERT INTO placement.others VALUES (1)",
                "UPDATE placement.numbers SET value = 10 WHERE id = 1",
                "COMMIT",
            )
            assert wait_until(lambda: has_received(first, second))

    # The lock holds back the transaction of the second member.
    holder = pymysql.connect(host="127.0.0.1", port=first.port, user="root", ssl_disabled=True)
    holder.query("LOCK TABLES placement.others READ")
    begin_stats()
    try:
        database.write(add_one)
    finally:
        database.dispose()
    assert len(attempts) == 2
    assert get_request_stats().conflicts == {SERIALIZATION: 1}
    assert wait_until(lambda: read_number(first) == read_number(second) == 11)


def has_received(first: MariaDB, second: MariaDB) -> bool:
    """Return whether the first member has the transactions of the second."""
    (executed,) = second.query("SELECT @@GLOBAL.gtid_executed")
    (received,) = first.query(
        "SELECT received_transaction_set FROM performance_schema.replication_connection_status "
        "WHERE channel_name = 'group_replication_applier'"
    )
    return bool(second.query(f"SELECT GTID_SUBSET('{executed}', '{received}')")[0])
