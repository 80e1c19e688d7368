# SPDX-License-Identifier: Apache-2.0
"""Detection of a change log that lacks rows, triggers or its table."""

import threading

import pytest
from sqlalchemy import text, update

from placement_sched.candidates import cache as cache_module
from placement_sched.candidates.cache import ProviderCache
from placement_sched.db.migrate import sync_schema
from placement_sched.db.tables import resource_providers
from placement_sched.db.transaction import Database
from placement_sched.db.triggers import find_missing_triggers
from placement_sched.store.placement import change_log
from tests.candidates.documented import CLOUD_OF_THREE_HOSTS
from tests.candidates.reload import replace_cloud
from tests.conftest import make_settings
from tests.support.statements import execute_statements

pytestmark = [pytest.mark.all_databases, pytest.mark.provider_cache]

CHANGE_LOG_TABLE = "sched_provider_changes"


@pytest.fixture
def database_with_hosts(database_url):
    database = Database(make_settings(database_url))
    replace_cloud(database, CLOUD_OF_THREE_HOSTS)
    yield database
    sync_schema(database)
    database.dispose()


@pytest.fixture
def cache(database_with_hosts, clock):
    """A cache without a background thread. The test calls its upkeep."""
    provider_cache = ProviderCache(change_log, clock=clock)
    assert refresh_cache(provider_cache, database_with_hosts)
    return provider_cache


def refresh_cache(cache, database) -> bool:
    with database.read() as connection:
        return cache.refresh(connection)


def is_cache_equal_to_database(cache, database) -> bool:
    with database.read() as connection:
        return cache.compare(connection) == frozenset()


def drop_provider_trigger(database):
    of_table = " ON resource_providers" if database.url.get_backend_name() == "postgresql" else ""
    execute_statements(database, f"DROP TRIGGER sched_resource_providers_updated{of_table}")


def increment_provider_generations(database):
    changed = update(resource_providers).values(generation=resource_providers.c.generation + 1)
    database.write(lambda connection: connection.execute(changed))


def test_dropped_triggers_of_the_change_log_are_detected(database_with_hosts, cache, clock, caplog):
    drop_provider_trigger(database_with_hosts)
    increment_provider_generations(database_with_hosts)
    cache.run_checks(database_with_hosts.read)
    assert not refresh_cache(cache, database_with_hosts)
    assert "lacks the triggers sched_resource_providers_updated" in caplog.text
    sync_schema(database_with_hosts)
    with database_with_hosts.read() as connection:
        assert not find_missing_triggers(connection)
    clock.now += 61
    assert refresh_cache(cache, database_with_hosts)
    assert is_cache_equal_to_database(cache, database_with_hosts)


def test_idle_worker_detects_dropped_triggers_of_the_change_log(database_with_hosts, clock):
    cache = ProviderCache(change_log, clock=clock, open_connection=database_with_hosts.read)
    refresh_cache(cache, database_with_hosts)
    cache.wait(10)
    assert refresh_cache(cache, database_with_hosts)
    drop_provider_trigger(database_with_hosts)
    increment_provider_generations(database_with_hosts)
    clock.now += cache_module.MAX_LATE_PAUSE + 1
    refresh_cache(cache, database_with_hosts)
    for thread in threading.enumerate():
        if thread.name == cache_module.CHECK_THREAD:
            thread.join(timeout=60)
    assert not refresh_cache(cache, database_with_hosts)


def test_recreated_triggers_of_the_change_log_are_detected(database_with_hosts, cache):
    drop_provider_trigger(database_with_hosts)
    increment_provider_generations(database_with_hosts)
    sync_schema(database_with_hosts)
    assert refresh_cache(cache, database_with_hosts)
    assert is_cache_equal_to_database(cache, database_with_hosts)
    assert cache.figures.repairs == 0


def test_emptied_change_log_is_detected(database_with_hosts, cache, clock, caplog):
    increment_provider_generations(database_with_hosts)
    assert refresh_cache(cache, database_with_hosts)
    execute_statements(database_with_hosts, f"DELETE FROM {CHANGE_LOG_TABLE}")
    increment_provider_generations(database_with_hosts)
    assert not refresh_cache(cache, database_with_hosts)
    clock.now += cache_module.MAX_LAG
    caplog.set_level("INFO", cache_module.__name__)
    assert refresh_cache(cache, database_with_hosts)
    assert "lacks rows that were read before" in caplog.text
    assert is_cache_equal_to_database(cache, database_with_hosts)


def test_restored_database_backup_is_detected(database_with_hosts, cache, clock):
    with database_with_hosts.read() as connection:
        last = connection.scalar(text(f"SELECT max(id) FROM {CHANGE_LOG_TABLE}")) or 0
    increment_provider_generations(database_with_hosts)
    assert refresh_cache(cache, database_with_hosts)
    # The backup has neither the change nor its log rows. Then another change is written.
    back = update(resource_providers).values(generation=resource_providers.c.generation - 1)
    database_with_hosts.write(lambda connection: connection.execute(back))
    execute_statements(database_with_hosts, f"DELETE FROM {CHANGE_LOG_TABLE} WHERE id > {last}")
    increment_provider_generations(database_with_hosts)
    with database_with_hosts.read() as connection:
        first = connection.scalar(text(f"SELECT min(id) FROM {CHANGE_LOG_TABLE} WHERE id > {last}"))
    execute_statements(
        database_with_hosts,
        f"UPDATE {CHANGE_LOG_TABLE} SET id = id - {first} + {last} + 1 WHERE id > {last}",
    )
    assert not refresh_cache(cache, database_with_hosts)
    clock.now += cache_module.MAX_LAG
    assert refresh_cache(cache, database_with_hosts)
    assert is_cache_equal_to_database(cache, database_with_hosts)


def test_temporarily_renamed_log_table_is_detected(database_with_hosts, cache, clock, caplog):
    execute_statements(database_with_hosts, f"ALTER TABLE {CHANGE_LOG_TABLE} RENAME TO elsewhere")
    assert not refresh_cache(cache, database_with_hosts)
    assert "SQL finds candidates more slowly" in caplog.text
    execute_statements(database_with_hosts, f"ALTER TABLE elsewhere RENAME TO {CHANGE_LOG_TABLE}")
    increment_provider_generations(database_with_hosts)
    clock.now += 61
    assert refresh_cache(cache, database_with_hosts)
    assert is_cache_equal_to_database(cache, database_with_hosts)
