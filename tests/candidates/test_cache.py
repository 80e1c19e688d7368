# SPDX-License-Identifier: Apache-2.0
"""Loading, refreshing and disabling of the provider cache."""

from random import Random
from threading import Event, Thread
from types import SimpleNamespace

import pytest
from sqlalchemy import select, update

from placement_sched.candidates import cache as cache_module
from placement_sched.candidates.cache import CHECK_THREAD, COMPARE_PAUSE, LATE_PAUSE, ProviderCache
from placement_sched.candidates.loader import LoadedProviders
from placement_sched.candidates.providers import CachedProviders
from placement_sched.candidates.search import find, prepare
from placement_sched.db.tables import allocations, resource_providers
from placement_sched.errors import Unavailable
from placement_sched.model.candidates_query import CandidatesQuery, RequestGroup
from placement_sched.store.placement import change_log, provider_state
from placement_sched.store.placement.provider_state import read_all_providers
from tests.candidates.changing import FakeChangeLog, RandomCloudChanger
from tests.candidates.documented import CLOUD_OF_THREE_HOSTS, build_cloud, provider
from tests.candidates.reload import replace_cloud
from tests.support.clouds import Host, build_inventory, load_cloud, uuid_of
from tests.support.concurrency import join_threads
from tests.support.statements import record_statements

pytestmark = pytest.mark.provider_cache

ONE_VCPU_QUERY = CandidatesQuery(groups=(RequestGroup(resources=(("VCPU", 1),)),))


@pytest.fixture
def database_with_hosts(database):
    replace_cloud(database, CLOUD_OF_THREE_HOSTS)
    return database


@pytest.fixture
def connection(database_with_hosts):
    with database_with_hosts.read() as connection:
        yield connection


@pytest.fixture
def fake_change_log():
    return FakeChangeLog()


@pytest.fixture
def cache(fake_change_log, clock, connection):
    """A cache that was loaded."""
    cache = ProviderCache(fake_change_log, clock=clock)
    assert cache.refresh(connection)
    return cache


def _find_root_uuids(cache, settings):
    source = CachedProviders(cache)
    candidates = find(source, prepare(source, ONE_VCPU_QUERY), settings, Random(1))
    return [request.root_uuid for request in candidates.requests]


def _add_host(database):
    load_cloud(database, build_cloud(provider("new", {"VCPU": 4})))


def _execute_statement(database, statement):
    database.write(lambda connection: connection.execute(statement))


def _log_all_providers_as_changed(fake_change_log, connection):
    fake_change_log.changed_ids += connection.scalars(select(resource_providers.c.id)).all()


def test_cache_reads_changed_providers_with_one_statement(
    database_with_hosts, connection, fake_change_log, cache
):
    _execute_statement(database_with_hosts, update(resource_providers).values(generation=99))
    _log_all_providers_as_changed(fake_change_log, connection)
    for statements in (1, 0):
        with record_statements(database_with_hosts) as recorded_statements:
            assert cache.refresh(connection)
        assert sum(map(len, recorded_statements.refreshes)) == statements


def test_cache_tries_a_missing_change_log_again_after_a_minute(connection, fake_change_log, clock):
    fake_change_log.is_available = False
    cache = ProviderCache(fake_change_log, clock=clock)
    assert not cache.refresh(connection)
    fake_change_log.is_available = True
    assert not cache.refresh(connection)
    clock.now += 61
    assert cache.refresh(connection)


def test_change_log_in_doubt_reloads_the_cache(
    database_with_hosts, settings, connection, fake_change_log, cache
):
    _add_host(database_with_hosts)
    assert cache.refresh(connection)
    assert uuid_of("new") not in _find_root_uuids(cache, settings)
    fake_change_log.needs_full_reload = True
    assert cache.refresh(connection)
    assert uuid_of("new") in _find_root_uuids(cache, settings)
    assert cache.figures.full_readings == 2


def test_change_log_always_in_doubt_disables_the_cache(connection, fake_change_log, monkeypatch):
    fake_change_log.needs_full_reload = True
    monkeypatch.setattr(fake_change_log, "begin", lambda _connection: 0)
    cache = ProviderCache(fake_change_log)
    for _ in range(2):
        assert not cache.refresh(connection)
        assert fake_change_log.read_count == 1


def test_too_many_changed_providers_reload_the_cache(
    database_with_hosts, settings, connection, fake_change_log, cache, monkeypatch
):
    monkeypatch.setattr(cache_module, "MAX_CHANGED_PROVIDERS", 1)
    _add_host(database_with_hosts)
    _log_all_providers_as_changed(fake_change_log, connection)
    assert cache.refresh(connection)
    assert uuid_of("new") in _find_root_uuids(cache, settings)
    assert (cache.figures.full_readings, cache.figures.refreshes) == (2, 0)


def test_provider_changes_during_a_cache_reload_are_applied(
    database_with_hosts, settings, connection, fake_change_log, monkeypatch
):
    cache, begin = ProviderCache(fake_change_log), fake_change_log.begin

    def begin_log_before_a_change(connection):
        position = begin(connection)
        _add_host(database_with_hosts)
        fake_change_log.changed_ids.append(10**6)
        return position

    monkeypatch.setattr(fake_change_log, "begin", begin_log_before_a_change)
    assert cache.refresh(connection)
    assert fake_change_log.read_count == 2
    assert uuid_of("new") in _find_root_uuids(cache, settings)


def test_failed_refresh_does_not_leave_a_partial_cache(
    settings, connection, fake_change_log, clock, cache, monkeypatch
):
    """The database answers requests until the cache is loaded again after a minute."""
    _log_all_providers_as_changed(fake_change_log, connection)
    with monkeypatch.context() as broken:
        broken.setattr("placement_sched.candidates.columns.ProviderColumns._associate", None)
        assert not cache.refresh(connection)
    with pytest.raises(Unavailable):
        _find_root_uuids(cache, settings)
    assert not cache.refresh(connection)
    clock.now += 61
    assert cache.refresh(connection)
    assert len(_find_root_uuids(cache, settings)) == 3


@pytest.fixture
def delayed_cache_load(monkeypatch):
    """A load of a cache that has begun, and may end."""
    events, read_all = SimpleNamespace(begun=Event(), may_end=Event()), read_all_providers

    def delay_cache_load(connection):
        events.begun.set()
        assert events.may_end.wait(timeout=60)
        return read_all(connection)

    monkeypatch.setattr(provider_state, "read_all_providers", delay_cache_load)
    yield events
    events.may_end.set()


def test_requests_use_the_database_during_a_cache_reload(
    database_with_hosts, settings, connection, fake_change_log, delayed_cache_load
):
    """At the start, and when the log is in doubt. Running requests still read the old cache."""
    cache = ProviderCache(fake_change_log, open_connection=database_with_hosts.read)
    for readings in (1, 2):
        assert not cache.refresh(connection)
        assert not cache.refresh(connection)
        delayed_cache_load.may_end.set()
        cache.wait(60)
        assert cache.refresh(connection)
        assert cache.figures.full_readings == readings
        delayed_cache_load.may_end.clear()
        fake_change_log.needs_full_reload = True
        assert not cache.refresh(connection)
        assert len(_find_root_uuids(cache, settings)) == 3
        fake_change_log.needs_full_reload = False
    delayed_cache_load.may_end.set()
    cache.wait(60)


@pytest.mark.all_databases
def test_requests_do_not_wait_for_a_cache_reload(
    database_with_hosts, connection, fake_change_log, cache, delayed_cache_load, monkeypatch
):
    def refresh_cache_again():
        with database_with_hosts.read() as other:
            cache.refresh(other)

    monkeypatch.setattr(cache_module, "MAX_LOAD_WAIT", 0.01)
    monkeypatch.setattr(fake_change_log, "begin", lambda _connection: 0)
    fake_change_log.needs_full_reload = True
    thread = Thread(target=refresh_cache_again)
    thread.start()
    assert delayed_cache_load.begun.wait(timeout=60)
    assert not cache.refresh(connection)
    fake_change_log.needs_full_reload = False
    delayed_cache_load.may_end.set()
    thread.join(timeout=60)
    assert cache.refresh(connection)
    assert cache.figures.full_readings == 2


def test_requests_use_the_database_after_a_failed_cache_load(
    database_with_hosts, connection, fake_change_log, clock, caplog
):
    requested = Event()
    opened = [Unavailable("the database does not answer"), database_with_hosts.read()]

    def open_next_connection():
        outcome = opened.pop(0)
        if isinstance(outcome, Unavailable):
            raise outcome
        assert requested.wait(60)  # otherwise a fast thread loads the cache before the request
        return outcome

    cache = ProviderCache(fake_change_log, clock=clock, open_connection=open_next_connection)
    assert not cache.refresh(connection)
    cache.wait(60)
    assert not cache.refresh(connection)
    assert "the database does not answer" in caplog.text
    clock.now += 61
    assert not cache.refresh(connection)
    requested.set()
    cache.wait(60)
    assert cache.refresh(connection)


def test_cache_is_loaded_again_a_minute_after_a_failed_load(
    connection, fake_change_log, clock, monkeypatch
):
    cache = ProviderCache(fake_change_log, clock=clock)
    with monkeypatch.context() as broken:
        broken.setattr(fake_change_log, "begin", None)
        assert not cache.refresh(connection)
    assert not cache.refresh(connection)
    clock.now += 61
    assert cache.refresh(connection)


@pytest.fixture
def background_cache(database_with_hosts, connection, fake_change_log, clock):
    """A cache that was loaded and is checked by background threads."""
    cache = ProviderCache(fake_change_log, clock=clock, open_connection=database_with_hosts.read)
    cache.refresh(connection)
    cache.wait(60)
    return cache


def test_late_changes_are_applied_by_each_background_check_of_the_cache(
    connection, fake_change_log, clock, background_cache
):
    for _ in range(2):
        fake_change_log.late_ids = frozenset({10**6})
        assert background_cache.refresh(connection)
        join_threads(CHECK_THREAD)
        assert fake_change_log.late_ids
        clock.now += LATE_PAUSE
        assert background_cache.refresh(connection)
        join_threads(CHECK_THREAD)
        assert not fake_change_log.late_ids


def test_cache_is_compared_with_the_database_in_the_background_after_a_pause(
    database_with_hosts, connection, clock, background_cache
):
    pauses = [(COMPARE_PAUSE - 1, 0), (LATE_PAUSE, 3), (LATE_PAUSE, 3), (COMPARE_PAUSE, 6)]
    for number, (pause, repairs) in enumerate(pauses):
        changed = update(resource_providers).values(generation=100 + number)
        _execute_statement(database_with_hosts, changed)
        clock.now += pause
        assert background_cache.refresh(connection)
        join_threads(CHECK_THREAD)
        assert background_cache.figures.repairs == repairs


def test_failed_background_check_of_the_cache_is_logged_and_repeated(
    connection, fake_change_log, clock, background_cache, monkeypatch, caplog
):
    def fail_to_read(_connection, _position):
        raise Unavailable("the database does not answer")

    caplog.set_level("INFO", cache_module.__name__)
    fake_change_log.late_ids = frozenset({10**6})
    clock.now += LATE_PAUSE
    with monkeypatch.context() as broken:
        broken.setattr(fake_change_log, "read_late_rows", fail_to_read)
        assert background_cache.refresh(connection)
        join_threads(CHECK_THREAD)
    reason = "the provider cache could not be checked: Unavailable: the database does not answer"
    assert reason in caplog.messages
    clock.now += LATE_PAUSE
    assert background_cache.refresh(connection)
    join_threads(CHECK_THREAD)
    assert not fake_change_log.late_ids


def test_lost_connection_fails_the_cache_refresh(connection, fake_change_log, cache, monkeypatch):
    """A search in the database would use the same connection."""

    class LostConnectionError(Exception):
        connection_invalidated = True

    def lose_connection(_connection, _position):
        raise LostConnectionError

    monkeypatch.setattr(fake_change_log, "read", lose_connection)
    with pytest.raises(LostConnectionError):
        cache.refresh(connection)


@pytest.mark.all_databases
def test_cache_is_correct_after_concurrent_searches_and_changes(database_with_hosts, settings):
    cache, changer = ProviderCache(change_log), RandomCloudChanger(Random(5))
    failed = []

    def search_repeatedly():
        try:
            for _ in range(30):
                with database_with_hosts.read() as connection:
                    if cache.refresh(connection):
                        _find_root_uuids(cache, settings)
        except Exception as failure:  # noqa: BLE001 - any failure of the thread
            failed.append(failure)

    threads = [Thread(target=search_repeatedly) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(30):
        changer.commit_random_change(database_with_hosts)
    for thread in threads:
        thread.join(timeout=60)
    assert failed == []
    with database_with_hosts.read() as connection:
        assert cache.refresh(connection)
        fresh = ProviderCache(FakeChangeLog())
        fresh.refresh(connection)
    assert _find_root_uuids(cache, settings) == _find_root_uuids(fresh, settings)


@pytest.mark.all_databases
def test_cache_uses_allocation_ratios_of_the_database(database, settings, fake_change_log):
    load_cloud(database, build_cloud(provider("CN")))
    more = build_inventory("VCPU", 10, used=18, allocation_ratio=1.9)
    load_cloud(database, build_cloud(Host("tenth", more)))
    cache = ProviderCache(fake_change_log)
    with database.read() as connection:
        cache.refresh(connection)
    assert _find_root_uuids(cache, settings) == [uuid_of("tenth")]


@pytest.mark.all_databases
def test_in_tree_uuid_is_compared_in_the_cache_as_in_the_database(
    database_with_hosts, settings, fake_change_log
):
    """OpenStack placement stores uuids unchanged. MariaDB ignores case when it compares them."""
    changed = resource_providers.c.uuid == uuid_of("CN1")
    upper = update(resource_providers).values(uuid=uuid_of("CN1").upper())
    _execute_statement(database_with_hosts, upper.where(changed))
    group = RequestGroup(resources=(("VCPU", 1),), in_tree=uuid_of("CN1"))
    query, cache = CandidatesQuery(groups=(group,)), ProviderCache(fake_change_log)
    roots = []
    with database_with_hosts.read() as connection:
        cache.refresh(connection)
        for source in (LoadedProviders(connection), CachedProviders(cache)):
            response = find(source, prepare(source, query), settings, Random(1))
            roots.append([request.root_uuid for request in response.requests])
    on_mariadb = database_with_hosts.url.get_backend_name() == "mysql"
    assert roots == [[uuid_of("CN1").upper()] if on_mariadb else []] * 2


# Comparison of the cache with the database


@pytest.mark.all_databases
def test_cache_equals_the_database_with_a_complete_change_log(database_with_hosts, connection):
    changer, cache = RandomCloudChanger(Random(7)), ProviderCache(change_log)
    cache.refresh(connection)
    for _ in range(20):
        changer.commit_random_change(database_with_hosts)
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
    database_with_hosts, settings, fake_change_log, statement, repairs, remains, caplog
):
    load_cloud(database_with_hosts, build_cloud(Host("held", build_inventory("VCPU", 4, used=2))))
    cache = ProviderCache(fake_change_log)
    with database_with_hosts.read() as connection:
        cache.refresh(connection)
        _execute_statement(database_with_hosts, statement)
        assert cache.refresh(connection)
        assert uuid_of("held") in _find_root_uuids(cache, settings)
        assert len(cache.compare(connection)) == repairs
        assert cache.compare(connection) == frozenset()
    assert cache.figures.repairs == repairs
    assert "differ from the database" in caplog.text
    assert (uuid_of("held") in _find_root_uuids(cache, settings)) is remains


def test_cache_is_not_repaired_while_change_log_rows_are_missing(
    database_with_hosts, connection, fake_change_log, cache
):
    """A cluster node that lags also has old providers."""
    _execute_statement(database_with_hosts, update(resource_providers).values(generation=99))
    fake_change_log.lacks_rows = True
    assert cache.compare(connection) == frozenset()
    fake_change_log.lacks_rows = False
    assert len(cache.compare(connection)) == 3


def test_provider_without_a_change_log_row_is_repaired_in_the_cache(
    database_with_hosts, settings, connection, cache
):
    _add_host(database_with_hosts)
    assert len(cache.compare(connection)) == 1
    assert uuid_of("new") in _find_root_uuids(cache, settings)


def test_change_log_rows_missing_long_reload_the_cache(connection, fake_change_log, clock, cache):
    """A Galera node lags for a moment only. Rows that a restored backup lacks stay missing."""
    fake_change_log.lacks_rows = True
    assert not cache.refresh(connection)
    fake_change_log.lacks_rows = False
    assert cache.refresh(connection)
    fake_change_log.lacks_rows = True
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
    connection, fake_change_log, clock, has_late_rows, pause
):
    clock.now = 10.0
    cache = ProviderCache(fake_change_log, clock=clock)
    cache.refresh(connection)
    fake_change_log.late_ids, fake_change_log.has_late_rows = frozenset({10**6}), has_late_rows
    assert cache.refresh(connection)
    assert cache.figures.refreshes == 0
    fake_change_log.has_late_rows = False
    clock.now += pause
    assert cache.refresh(connection)
    assert cache.figures.refreshes == 1
