# SPDX-License-Identifier: Apache-2.0
"""The services that a process remembers: read again once a host of their part has changed."""

from datetime import timedelta

import pytest

from placement_sched.db.transaction import Database
from placement_sched.scheduler.caches import ServiceCache
from placement_sched.scheduler.host_state import NO_SERVICE
from placement_sched.store.compute import host_changes, services
from tests.support.reports import NOW
from tests.support.statements import counted

pytestmark = pytest.mark.all_databases

LATER = NOW + timedelta(seconds=30)


@pytest.fixture
def other_process(settings):
    """Another process's way to the database."""
    database = Database(settings)
    yield database
    database.dispose()


def get(database, cache, *hosts):
    with database.read() as connection:
        return cache.get(connection, hosts, host_changes.versions(connection))


def beat(database, *hosts, at=NOW):
    database.write(
        lambda connection: services.record_heartbeats(connection, dict.fromkeys(hosts, at), at)
    )


def test_a_host_without_a_service_has_none_until_it_gets_one(database, other_process):
    cache = ServiceCache()
    assert get(database, cache, "cn1") == {"cn1": NO_SERVICE}
    beat(other_process, "cn1")
    assert get(database, cache, "cn1")["cn1"]["last_seen_up"] == NOW


def test_what_another_process_changes_is_seen_at_once(database, other_process):
    cache = ServiceCache()
    beat(database, "cn1", "cn2")
    number = get(database, cache, "cn1", "cn2")["cn1"]["id"]
    beat(other_process, "cn1", at=LATER)
    assert get(database, cache, "cn1")["cn1"]["last_seen_up"] == LATER
    other_process.write(
        lambda connection: services.set_disabled(connection, [number], disabled=True, reason="fan")
    )
    found = get(database, cache, "cn1", "cn2")
    assert (found["cn1"]["disabled_reason"], found["cn2"]["disabled"]) == ("fan", False)
    other_process.write(lambda connection: services.remove(connection, [number]))
    assert get(database, cache, "cn1") == {"cn1": NO_SERVICE}


def test_services_that_did_not_change_take_no_statement_but_the_counters(database):
    cache = ServiceCache()
    beat(database, *(f"cn{number}" for number in range(20)))
    hosts = [f"cn{number}" for number in range(20)]
    for statements in (2, 1):
        with counted(database) as seen:
            get(database, cache, *hosts)
        assert len(seen) == statements


def test_no_more_services_are_kept_than_the_cache_may_hold(sqlite_database):
    cache = ServiceCache(limit=3)
    beat(sqlite_database, "cn1", "cn2", "cn3", "cn4")
    for host in ("cn1", "cn2", "cn3", "cn4", "cn1"):
        assert get(sqlite_database, cache, host)[host]["host"] == host
    assert len(cache) <= 3
