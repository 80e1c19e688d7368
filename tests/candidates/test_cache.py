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
from tests.candidates.reload import replace_cloud
from tests.support.clouds import Cloud, Host, build_inventory, load_cloud, uuid_of
from tests.support.statements import record_statements
from tests.support.states import ManualClock

QUERY = CandidatesQuery(groups=(RequestGroup(resources=(("VCPU", 1),)),))
CLOUD = Cloud(tuple(provider(f"CN{number}", {"VCPU": 4}) for number in range(3)))


@pytest.fixture
def filled_database(database):
    replace_cloud(database, CLOUD)
    return database


@pytest.fixture
def connection(filled_database):
    with filled_database.read() as connection:
        yield connection


@pytest.fixture
def recorded_changes():
    return RecordedChanges()


@pytest.fixture
def clock():
    return ManualClock(0.0)


@pytest.fixture
def cache(recorded_changes, clock, connection):
    """A cache that was loaded."""
    cache = ProviderCache(recorded_changes, clock=clock)
    assert cache.refresh(connection)
    return cache


def _find_roots(cache, settings):
    source = CachedProviders(cache)
    found = find(source, prepare(source, QUERY), settings, Random(1))
    return [request.root_uuid for request in found.requests]


def _add_host(database):
    load_cloud(database, build_cloud(provider("new", {"VCPU": 4})))


def _update_rows(database, statement):
    database.write(lambda connection: connection.execute(statement))


def _log_all_providers_as_changed(recorded_changes, connection):
    recorded_changes.noted += connection.scalars(select(resource_providers.c.id)).all()


def test_cache_reads_changes_with_one_statement(
    filled_database, connection, recorded_changes, cache
):
    _update_rows(filled_database, update(resource_providers).values(generation=99))
    _log_all_providers_as_changed(recorded_changes, connection)
    for statements in (1, 0):
        with record_statements(filled_database) as seen:
            assert cache.refresh(connection)
        assert len(seen) == statements


def test_cache_tries_a_missing_change_log_again_after_a_minute(connection, recorded_changes, clock):
    recorded_changes.kept = False
    cache = ProviderCache(recorded_changes, clock=clock)
    assert not cache.refresh(connection)
    recorded_changes.kept = True
    assert not cache.refresh(connection)
    clock.now += 61
    assert cache.refresh(connection)


def test_doubtful_change_log_reloads_the_cache(
    filled_database, settings, connection, recorded_changes, cache
):
    _add_host(filled_database)
    assert cache.refresh(connection)
    assert uuid_of("new") not in _find_roots(cache, settings)
    recorded_changes.doubted = True
    assert cache.refresh(connection)
    assert uuid_of("new") in _find_roots(cache, settings)
    assert cache.figures.full_readings == 2


def test_unreliable_change_log_disables_the_cache(connection, recorded_changes, monkeypatch):
    recorded_changes.doubted = True
    monkeypatch.setattr(recorded_changes, "begin", lambda _connection: 0)
    cache = ProviderCache(recorded_changes)
    for _ in range(2):
        assert not cache.refresh(connection)
        assert recorded_changes.reads == 1


def test_very_many_changes_reload_the_cache(
    filled_database, settings, connection, recorded_changes, cache, monkeypatch
):
    monkeypatch.setattr(cache_module, "MAX_CHANGED_PROVIDERS", 1)
    _add_host(filled_database)
    _log_all_providers_as_changed(recorded_changes, connection)
    assert cache.refresh(connection)
    assert uuid_of("new") in _find_roots(cache, settings)
    assert (cache.figures.full_readings, cache.figures.refreshes) == (2, 0)


def test_changes_during_a_reload_are_applied(
    filled_database, settings, connection, recorded_changes, monkeypatch
):
    cache, begin = ProviderCache(recorded_changes), recorded_changes.begin

    def begin_before_a_change(connection):
        position = begin(connection)
        _add_host(filled_database)
        recorded_changes.noted.append(10**6)
        return position

    monkeypatch.setattr(recorded_changes, "begin", begin_before_a_change)
    assert cache.refresh(connection)
    assert recorded_changes.reads == 2
    assert uuid_of("new") in _find_roots(cache, settings)


def test_failed_refresh_does_not_leave_a_partial_cache(
    settings, connection, recorded_changes, clock, cache, monkeypatch
):
    """The database answers requests until the cache is loaded again after a minute."""
    _log_all_providers_as_changed(recorded_changes, connection)
    with monkeypatch.context() as broken:
        broken.setattr("placement_sched.candidates.columns.ProviderColumns._associate", None)
        assert not cache.refresh(connection)
    with pytest.raises(Unavailable):
        _find_roots(cache, settings)
    assert not cache.refresh(connection)
    clock.now += 61
    assert cache.refresh(connection)
    assert len(_find_roots(cache, settings)) == 3


@pytest.fixture
def delayed_load(monkeypatch):
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
    filled_database, settings, connection, recorded_changes, delayed_load
):
    """At the start, and when the log is in doubt. Running requests still read the old cache."""
    cache = ProviderCache(recorded_changes, opened=filled_database.read)
    for readings in (1, 2):
        assert not cache.refresh(connection)
        assert not cache.refresh(connection)
        delayed_load.may_end.set()
        cache.wait(60)
        assert cache.refresh(connection)
        assert cache.figures.full_readings == readings
        delayed_load.may_end.clear()
        recorded_changes.doubted = True
        assert not cache.refresh(connection)
        assert len(_find_roots(cache, settings)) == 3
        recorded_changes.doubted = False
    delayed_load.may_end.set()
    cache.wait(60)


@pytest.mark.all_databases
def test_requests_do_not_wait_for_a_reload(
    filled_database, connection, recorded_changes, cache, delayed_load, monkeypatch
):
    def refresh_cache_again():
        with filled_database.read() as other:
            cache.refresh(other)

    monkeypatch.setattr(cache_module, "MAX_LOAD_WAIT", 0.01)
    monkeypatch.setattr(recorded_changes, "begin", lambda _connection: 0)
    recorded_changes.doubted = True
    thread = Thread(target=refresh_cache_again)
    thread.start()
    assert delayed_load.begun.wait(timeout=60)
    assert not cache.refresh(connection)
    recorded_changes.doubted = False
    delayed_load.may_end.set()
    thread.join(timeout=60)
    assert cache.refresh(connection)
    assert cache.figures.full_readings == 2


def test_failed_background_reload_falls_back_to_the_database(
    filled_database, connection, recorded_changes, clock, caplog
):
    requested = Event()
    opened = [Unavailable("the database does not answer"), filled_database.read()]

    def open_next():
        outcome = opened.pop(0)
        if isinstance(outcome, Unavailable):
            raise outcome
        assert requested.wait(60)  # otherwise a fast thread loads the cache before the request
        return outcome

    cache = ProviderCache(recorded_changes, clock=clock, opened=open_next)
    assert not cache.refresh(connection)
    cache.wait(60)
    assert not cache.refresh(connection)
    assert "the database does not answer" in caplog.text
    clock.now += 61
    assert not cache.refresh(connection)
    requested.set()
    cache.wait(60)
    assert cache.refresh(connection)


def test_lost_connection_is_raised(connection, recorded_changes, cache, monkeypatch):
    """A search in the database would use the same connection."""

    class LostConnectionError(Exception):
        connection_invalidated = True

    monkeypatch.setattr(recorded_changes, "read", Mock(side_effect=LostConnectionError))
    with pytest.raises(LostConnectionError):
        cache.refresh(connection)


@pytest.mark.all_databases
@pytest.mark.usefixtures("change_log_triggers")
def test_concurrent_searches_and_changes_are_consistent(filled_database, settings):
    cache, changer = ProviderCache(change_log), RandomChanger(Random(5))
    failed = []

    def search_repeatedly():
        try:
            for _ in range(30):
                with filled_database.read() as connection:
                    if cache.refresh(connection):
                        _find_roots(cache, settings)
        except Exception as failure:  # noqa: BLE001 - any failure of the thread
            failed.append(failure)

    threads = [Thread(target=search_repeatedly) for _ in range(3)]
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
    assert _find_roots(cache, settings) == _find_roots(fresh, settings)


@pytest.mark.all_databases
def test_single_precision_ratio_is_used_as_the_database_returns_it(
    database, settings, recorded_changes
):
    load_cloud(database, build_cloud(provider("CN")))
    more = build_inventory("VCPU", 10, used=18, allocation_ratio=1.9)
    load_cloud(database, build_cloud(Host("tenth", more)))
    cache = ProviderCache(recorded_changes)
    with database.read() as connection:
        cache.refresh(connection)
    assert _find_roots(cache, settings) == [uuid_of("tenth")]


@pytest.mark.all_databases
def test_in_tree_uuid_compares_like_the_database(filled_database, settings, recorded_changes):
    """OpenStack placement stores uuids unchanged. MariaDB ignores case when it compares them."""
    changed = resource_providers.c.uuid == uuid_of("CN1")
    upper = update(resource_providers).values(uuid=uuid_of("CN1").upper())
    _update_rows(filled_database, upper.where(changed))
    group = RequestGroup(resources=(("VCPU", 1),), in_tree=uuid_of("CN1"))
    query, cache = CandidatesQuery(groups=(group,)), ProviderCache(recorded_changes)
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
@pytest.mark.usefixtures("change_log_triggers")
def test_cache_equals_the_database_with_a_complete_change_log(filled_database, connection):
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
def test_change_missing_in_the_change_log_is_repaired_in_the_cache(
    filled_database, settings, recorded_changes, statement, repairs, remains, caplog
):
    load_cloud(filled_database, build_cloud(Host("held", build_inventory("VCPU", 4, used=2))))
    cache = ProviderCache(recorded_changes)
    with filled_database.read() as connection:
        cache.refresh(connection)
        _update_rows(filled_database, statement)
        assert cache.refresh(connection)
        assert uuid_of("held") in _find_roots(cache, settings)
        assert len(cache.compare(connection)) == repairs
        assert cache.compare(connection) == frozenset()
    assert cache.figures.repairs == repairs
    assert "differ from the database" in caplog.text
    assert (uuid_of("held") in _find_roots(cache, settings)) is remains


def test_cache_is_not_repaired_while_log_rows_are_missing(
    filled_database, connection, recorded_changes, cache
):
    """A cluster node that lags also has old providers."""
    _update_rows(filled_database, update(resource_providers).values(generation=99))
    recorded_changes.lacking = True
    assert cache.compare(connection) == frozenset()
    recorded_changes.lacking = False
    assert len(cache.compare(connection)) == 3


def test_provider_without_a_log_row_is_repaired_in_the_cache(
    filled_database, settings, connection, cache
):
    _add_host(filled_database)
    assert len(cache.compare(connection)) == 1
    assert uuid_of("new") in _find_roots(cache, settings)


def test_log_rows_missing_for_long_reload_the_cache(connection, recorded_changes, clock, cache):
    """A Galera node lags for a moment only. Rows that a restored backup lacks stay missing."""
    recorded_changes.lacking = True
    assert not cache.refresh(connection)
    recorded_changes.lacking = False
    assert cache.refresh(connection)
    recorded_changes.lacking = True
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
def test_change_log_rows_that_appear_late_are_read_after_a_pause(
    connection, recorded_changes, clock, has_late_rows, pause
):
    clock.now = 10.0
    cache = ProviderCache(recorded_changes, clock=clock)
    cache.refresh(connection)
    recorded_changes.late, recorded_changes.has_late_rows = frozenset({10**6}), has_late_rows
    assert cache.refresh(connection)
    assert cache.figures.refreshes == 0
    recorded_changes.has_late_rows = False
    clock.now += pause
    assert cache.refresh(connection)
    assert cache.figures.refreshes == 1
