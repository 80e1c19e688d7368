# SPDX-License-Identifier: Apache-2.0
"""Loading, refreshing and disabling of the provider cache."""

from random import Random
from threading import Event, Thread
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from sqlalchemy import select, update

from placement_sched.candidates import cache as cache_module
from placement_sched.candidates.cache import ProviderCache
from placement_sched.candidates.loader import LoadedProviders
from placement_sched.candidates.providers import CachedProviders
from placement_sched.candidates.search import find, prepare
from placement_sched.db.tables import allocations, resource_providers
from placement_sched.errors import Unavailable
from placement_sched.model.candidates_query import CandidatesQuery, RequestGroup
from placement_sched.store.placement import change_log, provider_state
from placement_sched.store.placement.provider_state import read_all_providers
from tests.candidates.changing import RandomChanger, RecordedChanges
from tests.candidates.documented import build_cloud, provider
from tests.candidates.reload import reload
from tests.support.clouds import Cloud, Host, build_inventory, load_cloud, uuid_of
from tests.support.statements import record_statements

QUERY = CandidatesQuery(groups=(RequestGroup(resources=(("VCPU", 1),)),))
CLOUD = Cloud(tuple(provider(f"CN{number}", {"VCPU": 4}) for number in range(3)))


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def filled_database(database):
    reload(database, CLOUD)
    return database


@pytest.fixture
def connection(filled_database):
    with filled_database.read() as connection:
        yield connection


@pytest.fixture
def log():
    return RecordedChanges()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def cache(log, clock, connection):
    """A cache that was loaded."""
    cache = ProviderCache(log, clock=clock)
    assert cache.refresh(connection)
    return cache


def _found_roots(cache, settings):
    source = CachedProviders(cache)
    found = find(source, prepare(source, QUERY), settings, Random(1))
    return [request.root_uuid for request in found.requests]


def _add_host(database):
    load_cloud(database, build_cloud(provider("new", {"VCPU": 4})))


def _update_rows(database, statement):
    database.write(lambda connection: connection.execute(statement))


def _add_all_to_log(log, connection):
    log.noted += connection.scalars(select(resource_providers.c.id)).all()


def test_changes_are_read_with_one_statement(filled_database, connection, log, cache):
    _update_rows(filled_database, update(resource_providers).values(generation=99))
    _add_all_to_log(log, connection)
    for statements in (1, 0):
        with record_statements(filled_database) as seen:
            assert cache.refresh(connection)
        assert len(seen) == statements


def test_cache_waits_for_the_change_log(connection, log, clock):
    log.kept = False
    cache = ProviderCache(log, clock=clock)
    assert not cache.refresh(connection)
    log.kept = True
    assert not cache.refresh(connection)
    clock.now += 61
    assert cache.refresh(connection)


def test_doubtful_log_reloads_the_cache(filled_database, settings, connection, log, cache):
    _add_host(filled_database)
    assert cache.refresh(connection)
    assert uuid_of("new") not in _found_roots(cache, settings)
    log.doubted = True
    assert cache.refresh(connection)
    assert uuid_of("new") in _found_roots(cache, settings)
    assert cache.figures.full_readings == 2


def test_unreliable_change_log_disables_the_cache(connection, log, monkeypatch):
    log.doubted = True
    monkeypatch.setattr(log, "begin", lambda _connection: 0)
    cache = ProviderCache(log)
    for _ in range(2):
        assert not cache.refresh(connection)
        assert log.reads == 1


def test_very_many_changes_reload_the_cache(
    filled_database, settings, connection, log, cache, monkeypatch
):
    monkeypatch.setattr(cache_module, "MAX_CHANGED_PROVIDERS", 1)
    _add_host(filled_database)
    _add_all_to_log(log, connection)
    assert cache.refresh(connection)
    assert uuid_of("new") in _found_roots(cache, settings)
    assert (cache.figures.full_readings, cache.figures.refreshes) == (2, 0)


def test_changes_during_a_reload_are_applied(
    filled_database, settings, connection, log, monkeypatch
):
    cache, begin = ProviderCache(log), log.begin

    def begin_before_a_change(connection):
        position = begin(connection)
        _add_host(filled_database)
        log.noted.append(10**6)
        return position

    monkeypatch.setattr(log, "begin", begin_before_a_change)
    assert cache.refresh(connection)
    assert log.reads == 2
    assert uuid_of("new") in _found_roots(cache, settings)


def test_failed_refresh_does_not_leave_a_partial_cache(
    settings, connection, log, clock, cache, monkeypatch
):
    """The database answers requests until the cache is loaded again after a minute."""
    _add_all_to_log(log, connection)
    with monkeypatch.context() as broken:
        broken.setattr("placement_sched.candidates.columns.ProviderColumns._associate", None)
        assert not cache.refresh(connection)
    with pytest.raises(Unavailable):
        _found_roots(cache, settings)
    assert not cache.refresh(connection)
    clock.now += 61
    assert cache.refresh(connection)
    assert len(_found_roots(cache, settings)) == 3


@pytest.fixture
def loading(monkeypatch):
    """A load of a cache that has begun, and may end."""
    events, read_all = SimpleNamespace(begun=Event(), may_end=Event()), read_all_providers

    def delay_load(connection):
        events.begun.set()
        assert events.may_end.wait(timeout=60)
        return read_all(connection)

    monkeypatch.setattr(provider_state, "read_all_providers", delay_load)
    yield events
    events.may_end.set()


def test_database_serves_requests_during_a_reload(
    filled_database, settings, connection, log, loading
):
    """At the start, and when the log is in doubt. Running requests still read the old cache."""
    cache = ProviderCache(log, opened=filled_database.read)
    for readings in (1, 2):
        assert not cache.refresh(connection)
        assert not cache.refresh(connection)
        loading.may_end.set()
        cache.wait(60)
        assert cache.refresh(connection)
        assert cache.figures.full_readings == readings
        loading.may_end.clear()
        log.doubted = True
        assert not cache.refresh(connection)
        assert len(_found_roots(cache, settings)) == 3
        log.doubted = False
    loading.may_end.set()
    cache.wait(60)


@pytest.mark.all_databases
def test_requests_do_not_wait_for_a_reload(
    filled_database, connection, log, cache, loading, monkeypatch
):
    def read_again():
        with filled_database.read() as other:
            cache.refresh(other)

    monkeypatch.setattr(cache_module, "MAX_LOAD_WAIT", 0.01)
    monkeypatch.setattr(log, "begin", lambda _connection: 0)
    log.doubted = True
    thread = Thread(target=read_again)
    thread.start()
    assert loading.begun.wait(timeout=60)
    assert not cache.refresh(connection)
    log.doubted = False
    loading.may_end.set()
    thread.join(timeout=60)
    assert cache.refresh(connection)
    assert cache.figures.full_readings == 2


def test_failed_background_reload_falls_back_to_the_database(
    filled_database, connection, log, clock, caplog
):
    requested = Event()
    opened = [Unavailable("the database does not answer"), filled_database.read()]

    def open_next():
        outcome = opened.pop(0)
        if isinstance(outcome, Unavailable):
            raise outcome
        assert requested.wait(60)  # otherwise a fast thread loads the cache before the request
        return outcome

    cache = ProviderCache(log, clock=clock, opened=open_next)
    assert not cache.refresh(connection)
    cache.wait(60)
    assert not cache.refresh(connection)
    assert "the database does not answer" in caplog.text
    clock.now += 61
    assert not cache.refresh(connection)
    requested.set()
    cache.wait(60)
    assert cache.refresh(connection)


def test_lost_connection_is_raised(connection, log, cache, monkeypatch):
    """A search in the database would use the same connection."""

    class Lost(Exception):
        connection_invalidated = True

    monkeypatch.setattr(log, "read", Mock(side_effect=Lost))
    with pytest.raises(Lost):
        cache.refresh(connection)


@pytest.mark.all_databases
@pytest.mark.usefixtures("log_of_changes")
def test_concurrent_searches_and_changes_are_consistent(filled_database, settings):
    cache, changer = ProviderCache(change_log), RandomChanger(Random(5))
    failed = []

    def send():
        try:
            for _ in range(30):
                with filled_database.read() as connection:
                    if cache.refresh(connection):
                        _found_roots(cache, settings)
        except Exception as failure:  # noqa: BLE001 - any failure of the thread
            failed.append(failure)

    threads = [Thread(target=send) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(30):
        changer.apply_change(filled_database)
    for thread in threads:
        thread.join(timeout=60)
    assert failed == []
    with filled_database.read() as connection:
        assert cache.refresh(connection)
        fresh = ProviderCache(RecordedChanges())
        fresh.refresh(connection)
    assert _found_roots(cache, settings) == _found_roots(fresh, settings)


@pytest.mark.all_databases
def test_single_precision_ratio_is_used_as_read(database, settings, log):
    load_cloud(database, build_cloud(provider("CN")))
    more = build_inventory("VCPU", 10, used=18, allocation_ratio=1.9)
    load_cloud(database, build_cloud(Host("tenth", more)))
    cache = ProviderCache(log)
    with database.read() as connection:
        cache.refresh(connection)
    assert _found_roots(cache, settings) == [uuid_of("tenth")]


@pytest.mark.all_databases
def test_in_tree_uuid_compares_like_the_database(filled_database, settings, log):
    """OpenStack placement stores uuids unchanged. MariaDB ignores case when it compares them."""
    changed = resource_providers.c.uuid == uuid_of("CN1")
    upper = update(resource_providers).values(uuid=uuid_of("CN1").upper())
    _update_rows(filled_database, upper.where(changed))
    group = RequestGroup(resources=(("VCPU", 1),), in_tree=uuid_of("CN1"))
    query, cache = CandidatesQuery(groups=(group,)), ProviderCache(log)
    roots = []
    with filled_database.read() as connection:
        cache.refresh(connection)
        for source in (LoadedProviders(connection), CachedProviders(cache)):
            answer = find(source, prepare(source, query), settings, Random(1))
            roots.append([request.root_uuid for request in answer.requests])
    on_mariadb = filled_database.url.get_backend_name() == "mysql"
    assert roots == [[uuid_of("CN1").upper()] if on_mariadb else []] * 2


# Comparison of the cache with the database


@pytest.mark.all_databases
@pytest.mark.usefixtures("log_of_changes")
def test_nothing_differs_with_a_complete_log(filled_database, connection):
    changer, cache = RandomChanger(Random(7)), ProviderCache(change_log)
    cache.refresh(connection)
    for _ in range(20):
        changer.apply_change(filled_database)
        assert cache.compare(connection) == frozenset()
        cache.refresh(connection)
        assert cache.compare(connection) == frozenset()
    assert cache.figures.repairs == 0


@pytest.mark.all_databases
@pytest.mark.parametrize(
    ("statement", "repairs", "remains"),
    [
        (update(resource_providers).values(generation=99), 4, True),
        (update(allocations).values(used=4), 1, False),
    ],
    ids=["generation", "used"],
)
def test_change_missing_in_the_log_is_repaired(
    filled_database, settings, log, statement, repairs, remains, caplog
):
    load_cloud(filled_database, build_cloud(Host("held", build_inventory("VCPU", 4, used=2))))
    cache = ProviderCache(log)
    with filled_database.read() as connection:
        cache.refresh(connection)
        _update_rows(filled_database, statement)
        assert cache.refresh(connection)
        assert uuid_of("held") in _found_roots(cache, settings)
        assert len(cache.compare(connection)) == repairs
        assert cache.compare(connection) == frozenset()
    assert cache.figures.repairs == repairs
    assert "differ from the database" in caplog.text
    assert (uuid_of("held") in _found_roots(cache, settings)) is remains


def test_nothing_is_repaired_while_log_rows_are_missing(filled_database, connection, log, cache):
    """A cluster node that lags also has old providers."""
    _update_rows(filled_database, update(resource_providers).values(generation=99))
    log.lacking = True
    assert cache.compare(connection) == frozenset()
    log.lacking = False
    assert len(cache.compare(connection)) == 3


def test_unlogged_creation_is_repaired(filled_database, settings, connection, cache):
    _add_host(filled_database)
    assert len(cache.compare(connection)) == 1
    assert uuid_of("new") in _found_roots(cache, settings)


def test_log_rows_missing_for_long_reload_the_cache(connection, log, clock, cache):
    """A Galera node lags for a moment only. Rows that a restored backup lacks stay missing."""
    log.lacking = True
    assert not cache.refresh(connection)
    log.lacking = False
    assert cache.refresh(connection)
    log.lacking = True
    assert not cache.refresh(connection)
    assert cache.figures.full_readings == 1
    clock.now += cache_module.MAX_LAG
    assert cache.refresh(connection)
    assert cache.figures.full_readings == 2


@pytest.mark.parametrize(
    ("has_late_rows", "pause"),
    [(False, cache_module.MAX_LATE_PAUSE), (True, cache_module.MIN_LATE_PAUSE)],
    ids=["late rows", "a long transaction"],
)
def test_late_log_rows_are_polled(connection, log, clock, has_late_rows, pause):
    clock.now = 10.0
    cache = ProviderCache(log, clock=clock)
    cache.refresh(connection)
    log.late, log.has_late_rows = frozenset({10**6}), has_late_rows
    assert cache.refresh(connection)
    assert cache.figures.refreshes == 0
    log.has_late_rows = False
    clock.now += pause
    assert cache.refresh(connection)
    assert cache.figures.refreshes == 1
