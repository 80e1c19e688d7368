# SPDX-License-Identifier: Apache-2.0
"""A change log that is lost is noticed and logged; the database answers until it is cured."""

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
from tests.candidates.reload import reload
from tests.conftest import make_settings
from tests.support.clouds import Cloud

pytestmark = [pytest.mark.all_databases, pytest.mark.usefixtures("log_of_changes")]

CLOUD = Cloud(tuple(provider(f"CN{number}", {"VCPU": 4}) for number in range(3)))
LOG = "sched_provider_changes"


class Clock:
    """A clock that a test sets forward."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def filled(database_url):
    database = Database(make_settings(database_url, placement__providers_in_memory=True))
    reload(database, CLOUD)
    yield database
    sync_schema(database)
    database.dispose()


@pytest.fixture
def cache(filled, clock):
    """A cache that reads within the requests; its upkeep is called by the test."""
    made = ProviderCache(change_log, clock=clock)
    assert is_current(made, filled)
    return made


def is_current(cache, database) -> bool:
    with database.read() as connection:
        return cache.refresh(connection)


def is_right(cache, database) -> bool:
    with database.read() as connection:
        return cache.compare(connection) == frozenset()


def do(database, statement):
    database.write(lambda connection: connection.execute(text(statement)))


def change_generations(database):
    changed = update(resource_providers).values(generation=resource_providers.c.generation + 1)
    database.write(lambda connection: connection.execute(changed))


def test_triggers_that_were_dropped_by_hand(filled, cache, clock, caplog):
    kind = filled.url.get_backend_name()
    of_table = " ON resource_providers" if kind == "postgresql" else ""
    do(filled, f"DROP TRIGGER sched_resource_providers_updated{of_table}")
    change_generations(filled)
    cache.run_refresh(filled.read)
    assert not is_current(cache, filled)
    assert "lacks the triggers sched_resource_providers_updated" in caplog.text
    sync_schema(filled)
    with filled.read() as connection:
        assert not missing_triggers(connection)
    clock.now += 61
    assert is_current(cache, filled)
    assert is_right(cache, filled)


def test_worker_that_is_seldom_asked_notices_lost_triggers(filled, clock):
    cache = ProviderCache(change_log, clock=clock, opened=filled.read)
    is_current(cache, filled)
    cache.wait(10)
    assert is_current(cache, filled)
    of_table = " ON resource_providers" if filled.url.get_backend_name() == "postgresql" else ""
    do(filled, f"DROP TRIGGER sched_resource_providers_updated{of_table}")
    change_generations(filled)
    clock.now += cache_module.MAX_LATE_PAUSE + 1
    is_current(cache, filled)
    for thread in threading.enumerate():
        if thread.name == cache_module.UPKEEP_THREAD:
            thread.join(timeout=60)
    assert not is_current(cache, filled)


def test_triggers_that_were_dropped_and_made_again_unseen(filled, cache):
    kind = filled.url.get_backend_name()
    of_table = " ON resource_providers" if kind == "postgresql" else ""
    do(filled, f"DROP TRIGGER sched_resource_providers_updated{of_table}")
    change_generations(filled)
    sync_schema(filled)
    assert is_current(cache, filled)
    assert is_right(cache, filled)
    assert cache.figures.repairs == 0


def test_log_that_was_emptied(filled, cache, clock, caplog):
    change_generations(filled)
    assert is_current(cache, filled)
    do(filled, f"DELETE FROM {LOG}")
    change_generations(filled)
    assert not is_current(cache, filled)
    clock.now += cache_module.MAX_LAG
    caplog.set_level("INFO", cache_module.__name__)
    assert is_current(cache, filled)
    assert "lacks rows that were read before" in caplog.text
    assert is_right(cache, filled)


def test_restored_backup_has_other_rows_under_the_same_ids(filled, cache, clock):
    with filled.read() as connection:
        last = connection.scalar(text(f"SELECT max(id) FROM {LOG}")) or 0
    change_generations(filled)
    assert is_current(cache, filled)
    # As the backup has it: neither the change nor its rows; then something else is written.
    back = update(resource_providers).values(generation=resource_providers.c.generation - 1)
    filled.write(lambda connection: connection.execute(back))
    do(filled, f"DELETE FROM {LOG} WHERE id > {last}")
    change_generations(filled)
    with filled.read() as connection:
        first = connection.scalar(text(f"SELECT min(id) FROM {LOG} WHERE id > {last}"))
    do(filled, f"UPDATE {LOG} SET id = id - {first} + {last} + 1 WHERE id > {last}")
    assert not is_current(cache, filled)
    clock.now += cache_module.MAX_LAG
    assert is_current(cache, filled)
    assert is_right(cache, filled)


def test_table_that_was_renamed_and_back(filled, cache, clock, caplog):
    do(filled, f"ALTER TABLE {LOG} RENAME TO elsewhere")
    assert not is_current(cache, filled)
    assert "candidates are searched for in the database" in caplog.text
    do(filled, f"ALTER TABLE elsewhere RENAME TO {LOG}")
    change_generations(filled)
    clock.now += 61
    assert is_current(cache, filled)
    assert is_right(cache, filled)
