# SPDX-License-Identifier: Apache-2.0
"""Loading, refreshing and disabling of the provider cache."""

from random import Random
from threading import Event, Thread
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
from placement_sched.store.placement import provider_state
from tests.candidates.changing import RandomChanger, RecordedChanges
from tests.candidates.documented import provider
from tests.candidates.reload import reload
from tests.support.clouds import Cloud, Host, build_inventory, load_cloud, uuid_of
from tests.support.statements import record_statements

QUERY = CandidatesQuery(groups=(RequestGroup(resources=(("VCPU", 1),)),))
CLOUD = Cloud(tuple(provider(f"CN{number}", {"VCPU": 4}) for number in range(3)))


@pytest.fixture
def filled_database(database):
    reload(database, CLOUD)
    return database


def _found_roots(cache, settings):
    source = CachedProviders(cache)
    found = find(source, prepare(source, QUERY), settings, Random(1))
    return [request.root_uuid for request in found.requests]


def test_cached_search_takes_no_statement(filled_database, settings):
    cache = ProviderCache(RecordedChanges())
    with filled_database.read() as connection:
        assert cache.refresh(connection)
    with record_statements(filled_database) as seen:
        assert _found_roots(cache, settings) == [uuid_of(f"CN{number}") for number in range(3)]
    assert seen == []


def test_changes_are_read_with_one_statement(filled_database, settings):
    log = RecordedChanges()
    cache, changer = ProviderCache(log), RandomChanger(log, Random(3))
    with filled_database.read() as connection:
        cache.refresh(connection)
        for _ in range(20):
            changer.apply_change(filled_database)
        log.names = False
        with record_statements(filled_database) as seen:
            assert cache.refresh(connection)
        assert len(seen) == 1
        with record_statements(filled_database) as seen:
            assert cache.refresh(connection)
        assert seen == []


def test_cache_waits_for_the_change_log(filled_database):
    now = [0.0]
    log = RecordedChanges(kept=False)
    cache = ProviderCache(log, clock=lambda: now[0])
    with filled_database.read() as connection:
        assert not cache.refresh(connection)
        log.kept = True
        assert not cache.refresh(connection)
        now[0] += 61
        assert cache.refresh(connection)


def test_doubtful_log_reloads_the_cache(filled_database, settings):
    log = RecordedChanges()
    cache = ProviderCache(log)
    with filled_database.read() as connection:
        cache.refresh(connection)
        load_cloud(filled_database, Cloud((provider("new", {"VCPU": 4}),)))
        assert cache.refresh(connection)
        assert uuid_of("new") not in _found_roots(cache, settings)
        log.doubted = True
        assert cache.refresh(connection)
    assert uuid_of("new") in _found_roots(cache, settings)
    assert cache.figures.full_readings == 2


def test_dropped_log_disables_the_cache(filled_database):
    """For example after ``db sync`` removed the triggers."""
    log = RecordedChanges()
    cache = ProviderCache(log)
    with filled_database.read() as connection:
        assert cache.refresh(connection)
        log.doubted, log.kept = True, False
        assert not cache.refresh(connection)
        assert not cache.refresh(connection)


def test_unreliable_change_log_disables_the_cache(filled_database, monkeypatch):
    log = RecordedChanges(doubted=True)
    monkeypatch.setattr(log, "begin", lambda _connection: 0)
    cache = ProviderCache(log)
    with filled_database.read() as connection:
        assert not cache.refresh(connection)
        assert log.reads == 1
        assert not cache.refresh(connection)
        assert log.reads == 1


def test_very_many_changes_reload_the_cache(filled_database, settings, monkeypatch):
    monkeypatch.setattr(cache_module, "MAX_CHANGED_PROVIDERS", 1)
    log = RecordedChanges()
    cache = ProviderCache(log)
    with filled_database.read() as connection:
        cache.refresh(connection)
        load_cloud(filled_database, Cloud((provider("new", {"VCPU": 4}),)))
        log.noted += connection.scalars(select(resource_providers.c.id)).all()
        assert cache.refresh(connection)
    assert uuid_of("new") in _found_roots(cache, settings)
    assert (cache.figures.full_readings, cache.figures.refreshes) == (2, 0)


def test_changes_during_a_reload_are_applied(filled_database, settings, monkeypatch):
    log = RecordedChanges()
    cache = ProviderCache(log)
    begin = log.begin

    def begin_before_a_change(connection):
        position = begin(connection)
        load_cloud(filled_database, Cloud((provider("late", {"VCPU": 4}),)))
        log.noted.append(10**6)
        return position

    monkeypatch.setattr(log, "begin", begin_before_a_change)
    with filled_database.read() as connection:
        assert cache.refresh(connection)
        assert log.reads == 2
    assert uuid_of("late") in _found_roots(cache, settings)


def test_failed_refresh_does_not_leave_a_partial_cache(filled_database, settings, monkeypatch):
    """The database answers requests until the cache is loaded again after a minute."""
    log, now = RecordedChanges(), [0.0]
    cache = ProviderCache(log, clock=lambda: now[0])
    with filled_database.read() as connection:
        cache.refresh(connection)
        log.noted += connection.scalars(select(resource_providers.c.id)).all()
        with monkeypatch.context() as broken:
            broken.setattr("placement_sched.candidates.columns.ProviderColumns._associate", None)
            assert not cache.refresh(connection)
        with pytest.raises(Unavailable):
            _found_roots(cache, settings)
        assert not cache.refresh(connection)
        now[0] += 61
        assert cache.refresh(connection)
    assert len(_found_roots(cache, settings)) == 3


@pytest.mark.all_databases
def test_requests_do_not_wait_for_a_reload(filled_database, settings, monkeypatch):
    log, reading, enough = RecordedChanges(), Event(), Event()
    cache = ProviderCache(log)
    read_all = provider_state.read_all_providers

    def delay_load(connection):
        reading.set()
        assert enough.wait(timeout=60)
        return read_all(connection)

    def read_again():
        with filled_database.read() as connection:
            cache.refresh(connection)

    with filled_database.read() as connection:
        assert cache.refresh(connection)
        monkeypatch.setattr(provider_state, "read_all_providers", delay_load)
        monkeypatch.setattr(cache_module, "MAX_LOAD_WAIT", 0.01)
        monkeypatch.setattr(log, "begin", lambda _connection: 0)
        log.doubted = True
        thread = Thread(target=read_again)
        thread.start()
        assert reading.wait(timeout=60)
        assert not cache.refresh(connection)
        log.doubted = False
        enough.set()
        thread.join(timeout=60)
        assert cache.refresh(connection)
    assert cache.figures.full_readings == 2


def test_database_serves_requests_during_a_reload(filled_database, settings, monkeypatch):
    """At the start, and when the log is in doubt. Running requests still read the old cache."""
    log, enough = RecordedChanges(), Event()
    read_all = provider_state.read_all_providers

    def delay_load(connection):
        assert enough.wait(timeout=60)
        return read_all(connection)

    monkeypatch.setattr(provider_state, "read_all_providers", delay_load)
    cache = ProviderCache(log, opened=filled_database.read)
    with filled_database.read() as connection:
        for readings in (1, 2):
            assert not cache.refresh(connection)
            assert not cache.refresh(connection)
            enough.set()
            cache.wait(60)
            assert cache.refresh(connection)
            assert cache.figures.full_readings == readings
            enough.clear()
            log.doubted = True
            assert not cache.refresh(connection)
            assert len(_found_roots(cache, settings)) == 3
            log.doubted = False
        enough.set()
        cache.wait(60)


def test_failed_background_reload_falls_back_to_the_database(filled_database, caplog):
    now, requested = [0.0], Event()
    opened = [Unavailable("the database does not answer"), filled_database.read()]

    def open_next():
        outcome = opened.pop(0)
        if isinstance(outcome, Unavailable):
            raise outcome
        assert requested.wait(60)  # otherwise a fast thread loads the cache before the request
        return outcome

    cache = ProviderCache(RecordedChanges(), clock=lambda: now[0], opened=open_next)
    with filled_database.read() as connection:
        assert not cache.refresh(connection)
        cache.wait(60)
        assert not cache.refresh(connection)
        assert "the database does not answer" in caplog.text
        now[0] += 61
        assert not cache.refresh(connection)
        requested.set()
        cache.wait(60)
        assert cache.refresh(connection)


def test_lost_connection_is_raised(filled_database, monkeypatch):
    """A search in the database would use the same connection."""

    class Lost(Exception):
        connection_invalidated = True

    log = RecordedChanges()
    cache = ProviderCache(log)
    with filled_database.read() as connection:
        cache.refresh(connection)
        monkeypatch.setattr(log, "read", Mock(side_effect=Lost))
        with pytest.raises(Lost):
            cache.refresh(connection)


@pytest.mark.all_databases
def test_concurrent_searches_and_changes_are_consistent(filled_database, settings):
    log = RecordedChanges()
    cache, changer = ProviderCache(log), RandomChanger(log, Random(5))
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
    log.names = True  # a thread that gave up waiting may have read it, once
    with filled_database.read() as connection:
        assert cache.refresh(connection)
        fresh = ProviderCache(RecordedChanges())
        fresh.refresh(connection)
    assert _found_roots(cache, settings) == _found_roots(fresh, settings)


@pytest.mark.all_databases
def test_single_precision_ratio_is_used_as_read(database, settings):
    load_cloud(database, Cloud((provider("CN"),)))
    more = build_inventory("VCPU", 10, used=18, allocation_ratio=1.9)
    load_cloud(database, Cloud((Host("tenth", more),)))
    cache = ProviderCache(RecordedChanges())
    with database.read() as connection:
        cache.refresh(connection)
    assert _found_roots(cache, settings) == [uuid_of("tenth")]


@pytest.mark.all_databases
def test_in_tree_uuid_compares_like_the_database(filled_database, settings):
    """OpenStack placement stores uuids unchanged. MariaDB ignores case when it compares them."""
    changed = resource_providers.c.uuid == uuid_of("CN1")
    upper = update(resource_providers).values(uuid=uuid_of("CN1").upper())
    filled_database.write(lambda connection: connection.execute(upper.where(changed)))
    group = RequestGroup(resources=(("VCPU", 1),), in_tree=uuid_of("CN1"))
    query, cache = CandidatesQuery(groups=(group,)), ProviderCache(RecordedChanges())
    roots = []
    with filled_database.read() as connection:
        cache.refresh(connection)
        for source in (LoadedProviders(connection), CachedProviders(cache)):
            answer = find(source, prepare(source, query), settings, Random(1))
            roots.append([request.root_uuid for request in answer.requests])
    on_mariadb = filled_database.url.get_backend_name() == "mysql"
    assert roots == [[uuid_of("CN1").upper()] if on_mariadb else []] * 2


class TestComparing:
    """The comparison of the cache with the database repairs and counts differences."""

    @pytest.mark.all_databases
    def test_nothing_differs_with_a_complete_log(self, filled_database):
        log = RecordedChanges()
        cache, changer = ProviderCache(log), RandomChanger(log, Random(7))
        with filled_database.read() as connection:
            cache.refresh(connection)
            for _ in range(40):
                changer.apply_change(filled_database)
                assert cache.compare(connection) == frozenset()
                cache.refresh(connection)
                assert cache.compare(connection) == frozenset()
        assert cache.figures.repairs == 0

    @pytest.mark.all_databases
    @pytest.mark.parametrize("column", ["generation", "used"])
    def test_change_missing_in_the_log_is_repaired(self, filled_database, settings, column, caplog):
        load_cloud(filled_database, Cloud((Host("held", build_inventory("VCPU", 4, used=2)),)))
        cache = ProviderCache(RecordedChanges())
        with filled_database.read() as connection:
            cache.refresh(connection)
            changed = {
                "generation": update(resource_providers).values(generation=99),
                "used": update(allocations).values(used=4),
            }[column]
            filled_database.write(lambda writing: writing.execute(changed))
            assert cache.refresh(connection)
            assert (uuid_of("held") in _found_roots(cache, settings)) is True
            repaired = cache.compare(connection)
            assert len(repaired) == (4 if column == "generation" else 1)
            assert cache.compare(connection) == frozenset()
        assert cache.figures.repairs == len(repaired)
        assert "differ from the database" in caplog.text
        assert (uuid_of("held") in _found_roots(cache, settings)) == (column == "generation")

    def test_nothing_is_repaired_while_log_rows_are_missing(self, filled_database):
        """A cluster node that lags also has old providers."""
        log = RecordedChanges()
        cache = ProviderCache(log)
        with filled_database.read() as connection:
            cache.refresh(connection)
            older = update(resource_providers).values(generation=99)
            filled_database.write(lambda writing: writing.execute(older))
            log.lacking = True
            assert cache.compare(connection) == frozenset()
            log.lacking = False
            assert len(cache.compare(connection)) == 3

    def test_unlogged_creation_or_deletion_is_repaired(self, filled_database, settings):
        cache = ProviderCache(RecordedChanges())
        with filled_database.read() as connection:
            cache.refresh(connection)
            load_cloud(filled_database, Cloud((provider("new", {"VCPU": 4}),)))
            assert len(cache.compare(connection)) == 1
        assert uuid_of("new") in _found_roots(cache, settings)


def test_log_rows_missing_for_long_reload_the_cache(filled_database):
    """A Galera node lags for a moment only. Rows that a restored backup lacks stay missing."""
    log, now = RecordedChanges(), [0.0]
    cache = ProviderCache(log, clock=lambda: now[0])
    with filled_database.read() as connection:
        assert cache.refresh(connection)
        log.lacking = True
        assert not cache.refresh(connection)
        log.lacking = False
        assert cache.refresh(connection)
        log.lacking = True
        assert not cache.refresh(connection)
        assert cache.figures.full_readings == 1
        now[0] += cache_module.MAX_LAG
        assert cache.refresh(connection)
    assert cache.figures.full_readings == 2


def test_late_log_rows_are_polled(filled_database):
    log, now = RecordedChanges(), [0.0]
    cache = ProviderCache(log, clock=lambda: now[0])
    with filled_database.read() as connection:
        cache.refresh(connection)
        log.late = frozenset({10**6})
        assert cache.refresh(connection)
        assert cache.figures.refreshes == 0
        now[0] += cache_module.MAX_LATE_PAUSE
        assert cache.refresh(connection)
    assert cache.figures.refreshes == 1


def test_long_transactions_are_polled_once_a_second(filled_database):
    log, now = RecordedChanges(), [10.0]
    cache = ProviderCache(log, clock=lambda: now[0])
    with filled_database.read() as connection:
        cache.refresh(connection)
        log.late, log.has_late_rows = frozenset({10**6}), True
        assert cache.refresh(connection)
        assert cache.figures.refreshes == 0
        log.has_late_rows = False
        now[0] += cache_module.MIN_LATE_PAUSE
        assert cache.refresh(connection)
        assert cache.figures.refreshes == 1
