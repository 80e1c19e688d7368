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
from placement_sched.db.triggers import missing_triggers
from placement_sched.store.placement import change_log
from tests.candidates.documented import provider
from tests.candidates.reload import replace_cloud
from tests.candidates.test_cache import clock as clock  # noqa: PLC0414 - a fixture
from tests.conftest import make_settings
from tests.support.clouds import Cloud
from tests.support.statements import execute_statements

pytestmark = [pytest.mark.all_databases, pytest.mark.usefixtures("change_log_triggers")]

CLOUD = Cloud(tuple(provider(f"CN{number}", {"VCPU": 4}) for number in range(3)))
LOG = "sched_provider_changes"


@pytest.fixture
def filled_database(database_url):
    database = Database(make_settings(database_url, placement__providers_in_memory=True))
    replace_cloud(database, CLOUD)
    yield database
    sync_schema(database)
    database.dispose()


@pytest.fixture
def cache(filled_database, clock):
    """A cache without a background thread. The test calls its upkeep."""
    provider_cache = ProviderCache(change_log, clock=clock)
    assert refresh_and_check_cache(provider_cache, filled_database)
    return provider_cache


def refresh_and_check_cache(cache, database) -> bool:
    with database.read() as connection:
        return cache.refresh(connection)


def is_equal_to_database(cache, database) -> bool:
    with database.read() as connection:
        return cache.compare(connection) == frozenset()


def drop_trigger(database):
    of_table = " ON resource_providers" if database.url.get_backend_name() == "postgresql" else ""
    execute_statements(database, f"DROP TRIGGER sched_resource_providers_updated{of_table}")


def change_generations(database):
    changed = update(resource_providers).values(generation=resource_providers.c.generation + 1)
    database.write(lambda connection: connection.execute(changed))


def test_dropped_triggers_are_detected(filled_database, cache, clock, caplog):
    drop_trigger(filled_database)
    change_generations(filled_database)
    cache.run_refresh(filled_database.read)
    assert not refresh_and_check_cache(cache, filled_database)
    assert "lacks the triggers sched_resource_providers_updated" in caplog.text
    sync_schema(filled_database)
    with filled_database.read() as connection:
        assert not missing_triggers(connection)
    clock.now += 61
    assert refresh_and_check_cache(cache, filled_database)
    assert is_equal_to_database(cache, filled_database)


def test_idle_worker_detects_dropped_triggers(filled_database, clock):
    cache = ProviderCache(change_log, clock=clock, opened=filled_database.read)
    refresh_and_check_cache(cache, filled_database)
    cache.wait(10)
    assert refresh_and_check_cache(cache, filled_database)
    drop_trigger(filled_database)
    change_generations(filled_database)
    clock.now += cache_module.MAX_LATE_PAUSE + 1
    refresh_and_check_cache(cache, filled_database)
    for thread in threading.enumerate():
        if thread.name == cache_module.CHECK_THREAD:
            thread.join(timeout=60)
    assert not refresh_and_check_cache(cache, filled_database)


def test_recreated_triggers_are_detected(filled_database, cache):
    drop_trigger(filled_database)
    change_generations(filled_database)
    sync_schema(filled_database)
    assert refresh_and_check_cache(cache, filled_database)
    assert is_equal_to_database(cache, filled_database)
    assert cache.figures.repairs == 0


def test_emptied_log_is_detected(filled_database, cache, clock, caplog):
    change_generations(filled_database)
    assert refresh_and_check_cache(cache, filled_database)
    execute_statements(filled_database, f"DELETE FROM {LOG}")
    change_generations(filled_database)
    assert not refresh_and_check_cache(cache, filled_database)
    clock.now += cache_module.MAX_LAG
    caplog.set_level("INFO", cache_module.__name__)
    assert refresh_and_check_cache(cache, filled_database)
    assert "lacks rows that were read before" in caplog.text
    assert is_equal_to_database(cache, filled_database)


def test_restored_backup_is_detected(filled_database, cache, clock):
    with filled_database.read() as connection:
        last = connection.scalar(text(f"SELECT max(id) FROM {LOG}")) or 0
    change_generations(filled_database)
    assert refresh_and_check_cache(cache, filled_database)
    # The backup has neither the change nor its log rows. Then another change is written.
    back = update(resource_providers).values(generation=resource_providers.c.generation - 1)
    filled_database.write(lambda connection: connection.execute(back))
    execute_statements(filled_database, f"DELETE FROM {LOG} WHERE id > {last}")
    change_generations(filled_database)
    with filled_database.read() as connection:
        first = connection.scalar(text(f"SELECT min(id) FROM {LOG} WHERE id > {last}"))
    execute_statements(
        filled_database, f"UPDATE {LOG} SET id = id - {first} + {last} + 1 WHERE id > {last}"
    )
    assert not refresh_and_check_cache(cache, filled_database)
    clock.now += cache_module.MAX_LAG
    assert refresh_and_check_cache(cache, filled_database)
    assert is_equal_to_database(cache, filled_database)


def test_temporarily_renamed_table_is_detected(filled_database, cache, clock, caplog):
    execute_statements(filled_database, f"ALTER TABLE {LOG} RENAME TO elsewhere")
    assert not refresh_and_check_cache(cache, filled_database)
    assert "candidates come from the slower database" in caplog.text
    execute_statements(filled_database, f"ALTER TABLE elsewhere RENAME TO {LOG}")
    change_generations(filled_database)
    clock.now += 61
    assert refresh_and_check_cache(cache, filled_database)
    assert is_equal_to_database(cache, filled_database)
