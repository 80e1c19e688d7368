# SPDX-License-Identifier: Apache-2.0
"""Preparation of a worker before its first request."""

from random import Random

import pymysql
import pytest
from pymysql.constants import ER
from sqlalchemy.exc import OperationalError

from placement_sched.candidates.loader import LoadedProviders
from placement_sched.db.tables import resource_classes
from placement_sched.db.transaction import Database
from placement_sched.errors import Unavailable
from placement_sched.model.clock import utcnow
from placement_sched.operations import prepare
from placement_sched.operations.prepare import sync, warm_up
from tests.support.clouds import Cloud, Host, build_inventory, load_cloud
from tests.support.statements import record_statements


@pytest.fixture
def cloud_with_three_hosts(database):
    amounts = (
        build_inventory("VCPU", 4)
        | build_inventory("MEMORY_MB", 64)
        | build_inventory("DISK_GB", 9)
    )
    load_cloud(database, Cloud(tuple(Host(f"cn{number}", amounts) for number in range(3))))


def find_provider_loading_statements(statements):
    """Return the statements that load the rows of providers."""
    return [
        statement
        for statement in statements
        if "UNION ALL" in statement and "FROM inventories" in statement
    ]


def test_warm_up_reads_the_providers_of_a_cloud_with_hosts(
    database, settings, cloud_with_three_hosts
):
    with record_statements(database) as statements:
        warm_up(database, LoadedProviders, settings, Random(1))
    assert find_provider_loading_statements(statements)


def test_warm_up_of_an_empty_cloud_sends_statements_but_loads_no_providers(database, settings):
    with record_statements(database) as statements:
        warm_up(database, LoadedProviders, settings, Random(1))
    assert statements
    assert not find_provider_loading_statements(statements)


@pytest.mark.parametrize("name", ["VCPU", None], ids=["no such class", "too expensive"])
def test_rejected_warmup_request_does_not_prevent_the_start(sqlite_database, sqlite_settings, name):
    amounts = (
        build_inventory("VCPU", 4)
        | build_inventory("MEMORY_MB", 64)
        | build_inventory("DISK_GB", 9)
    )
    hosts = [Host(f"cn{number}", amounts) for number in range(30)]
    load_cloud(sqlite_database, Cloud((*hosts, Host("child", {}, parent="cn0"))))
    unknown = resource_classes.update().where(resource_classes.c.name == name).values(name="GONE")
    sqlite_database.write(lambda connection: connection.execute(unknown))
    options = sqlite_settings.with_overrides({"placement.allocation_candidates_budget": 100})
    with record_statements(sqlite_database) as statements:
        warm_up(sqlite_database, LoadedProviders, options, Random(1))
    # A search that is too expensive ends after it has read its trees.
    assert bool(find_provider_loading_statements(statements)) == (name is None)


@pytest.mark.all_databases
def test_warm_up_raises_unavailable_if_the_database_does_not_respond(settings):
    unavailable_settings = settings.with_overrides(
        {"placement_database.connection": "postgresql://nobody@127.0.0.1:1/none"}
    )
    with pytest.raises(Unavailable):
        warm_up(Database(unavailable_settings), LoadedProviders, settings, Random(1))


class SchemaCheckStub:
    """A check of the schema that fails with a database error ``ends`` times."""

    def __init__(self, failure_count: int, error: int) -> None:
        self.call_count = 0
        self._failure_count, self._error = failure_count, error

    def __call__(self, _database) -> None:
        self.call_count += 1
        if self.call_count <= self._failure_count:
            cause = pymysql.err.OperationalError(self._error, "Deadlock found")
            raise Unavailable("concurrent write") from OperationalError("SELECT", {}, cause)


@pytest.mark.parametrize("failure_count", [1, 3])
def test_schema_check_is_retried_after_a_concurrent_write(
    sqlite_database, monkeypatch, failure_count
):
    check = SchemaCheckStub(failure_count, ER.LOCK_DEADLOCK)
    monkeypatch.setattr(prepare, "check_adopted", check)
    sync(sqlite_database, utcnow)
    assert check.call_count == failure_count + 1


@pytest.mark.parametrize(
    ("error", "times"), [(ER.LOCK_DEADLOCK, 11), (ER.DBACCESS_DENIED_ERROR, 1)]
)
def test_failed_schema_check_is_reported(sqlite_database, monkeypatch, error, times):
    check = SchemaCheckStub(99, error)
    monkeypatch.setattr(prepare, "check_adopted", check)
    with pytest.raises(Unavailable):
        sync(sqlite_database, utcnow)
    assert check.call_count == times
