# SPDX-License-Identifier: Apache-2.0
"""When the cache is read, brought up to date and done without."""

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
from tests.candidates.changing import Changer, NotedChanges
from tests.candidates.documented import provider
from tests.candidates.reload import reload
from tests.support.clouds import Cloud, Host, build_stock, load_cloud, uuid_of
from tests.support.statements import record_statements

QUERY = CandidatesQuery(groups=(RequestGroup(resources=(("VCPU", 1),)),))
CLOUD = Cloud(tuple(provider(f"CN{number}", {"VCPU": 4}) for number in range(3)))


@pytest.fixture
def filled(database):
    reload(database, CLOUD)
    return database


def _found(cache, settings):
    source = CachedProviders(cache)
    found = find(source, prepare(source, QUERY), settings, Random(1))
    return [request.root_uuid for request in found.requests]


def test_all_that_is_asked_takes_no_statement(filled, settings):
    cache = ProviderCache(NotedChanges())
    with filled.read() as connection:
        assert cache.refresh(connection)
    with record_statements(filled) as seen:
        assert _found(cache, settings) == [uuid_of(f"CN{number}") for number in range(3)]
    assert seen == []


def test_what_changed_is_read_with_one_statement(filled, settings):
    log = NotedChanges()
    cache, changer = ProviderCache(log), Changer(log, Random(3))
    with filled.read() as connection:
        cache.refresh(connection)
        for _ in range(20):
            changer.change(filled)
        log.names = False
        with record_statements(filled) as seen:
            assert cache.refresh(connection)
        assert len(seen) == 1
        with record_statements(filled) as seen:
            assert cache.refresh(connection)
        assert seen == []


def test_without_a_log_there_is_no_cache_and_it_is_asked_for_again_later(filled):
    now = [0.0]
    log = NotedChanges(kept=False)
    cache = ProviderCache(log, clock=lambda: now[0])
    with filled.read() as connection:
        assert not cache.refresh(connection)
        log.kept = True
        assert not cache.refresh(connection)
        now[0] += 61
        assert cache.refresh(connection)


def test_log_in_doubt_lets_everything_be_read_again(filled, settings):
    log = NotedChanges()
    cache = ProviderCache(log)
    with filled.read() as connection:
        cache.refresh(connection)
        load_cloud(filled, Cloud((provider("new", {"VCPU": 4}),)))
        assert cache.refresh(connection)
        assert uuid_of("new") not in _found(cache, settings)
        log.doubted = True
        assert cache.refresh(connection)
    assert uuid_of("new") in _found(cache, settings)
    assert cache.figures.full_readings == 2


def test_log_that_is_no_longer_kept_leaves_no_cache(filled):
    """As after a sync that removed the triggers: the database is searched from then on."""
    log = NotedChanges()
    cache = ProviderCache(log)
    with filled.read() as connection:
        assert cache.refresh(connection)
        log.doubted, log.kept = True, False
        assert not cache.refresh(connection)
        assert not cache.refresh(connection)


def test_log_that_stays_in_doubt_leaves_no_cache(filled, monkeypatch):
    log = NotedChanges(doubted=True)
    monkeypatch.setattr(log, "begin", lambda _connection: 0)
    cache = ProviderCache(log)
    with filled.read() as connection:
        assert not cache.refresh(connection)
        assert log.asked == 1
        assert not cache.refresh(connection)
        assert log.asked == 1


def test_very_many_changes_let_everything_be_read_again(filled, settings, monkeypatch):
    monkeypatch.setattr(cache_module, "MANY", 1)
    log = NotedChanges()
    cache = ProviderCache(log)
    with filled.read() as connection:
        cache.refresh(connection)
        load_cloud(filled, Cloud((provider("new", {"VCPU": 4}),)))
        log.noted += connection.scalars(select(resource_providers.c.id)).all()
        assert cache.refresh(connection)
    assert uuid_of("new") in _found(cache, settings)
    assert (cache.figures.full_readings, cache.figures.refreshes) == (2, 0)


def test_what_changes_while_all_is_read_is_read_again(filled, settings, monkeypatch):
    log = NotedChanges()
    cache = ProviderCache(log)
    begin = log.begin

    def begin_before_a_change(connection):
        position = begin(connection)
        load_cloud(filled, Cloud((provider("late", {"VCPU": 4}),)))
        log.noted.append(10**6)
        return position

    monkeypatch.setattr(log, "begin", begin_before_a_change)
    with filled.read() as connection:
        assert cache.refresh(connection)
        assert log.asked == 2
    assert uuid_of("late") in _found(cache, settings)


def test_change_that_fails_leaves_no_cache_half_changed(filled, settings, monkeypatch):
    """The request is answered by the database; everything is read again after a while."""
    log, now = NotedChanges(), [0.0]
    cache = ProviderCache(log, clock=lambda: now[0])
    with filled.read() as connection:
        cache.refresh(connection)
        log.noted += connection.scalars(select(resource_providers.c.id)).all()
        with monkeypatch.context() as broken:
            broken.setattr("placement_sched.candidates.columns.ProviderColumns._associate", None)
            assert not cache.refresh(connection)
        with pytest.raises(Unavailable):
            _found(cache, settings)
        assert not cache.refresh(connection)
        now[0] += 61
        assert cache.refresh(connection)
    assert len(_found(cache, settings)) == 3


@pytest.mark.all_databases
def test_nothing_waits_for_another_that_reads_everything(filled, settings, monkeypatch):
    log, reading, enough = NotedChanges(), Event(), Event()
    cache = ProviderCache(log)
    read_all = provider_state.read_all_providers

    def slowly(connection):
        reading.set()
        assert enough.wait(timeout=60)
        return read_all(connection)

    def read_again():
        with filled.read() as connection:
            cache.refresh(connection)

    with filled.read() as connection:
        assert cache.refresh(connection)
        monkeypatch.setattr(provider_state, "read_all_providers", slowly)
        monkeypatch.setattr(cache_module, "PATIENCE", 0.01)
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


def test_database_answers_while_a_thread_reads_all(filled, settings, monkeypatch):
    """At the start, and where the log is in doubt; what was asked before is answered still."""
    log, enough = NotedChanges(), Event()
    read_all = provider_state.read_all_providers

    def slowly(connection):
        assert enough.wait(timeout=60)
        return read_all(connection)

    monkeypatch.setattr(provider_state, "read_all_providers", slowly)
    cache = ProviderCache(log, opened=filled.read)
    with filled.read() as connection:
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
            assert len(_found(cache, settings)) == 3
            log.doubted = False
        enough.set()
        cache.wait(60)


def test_reading_that_fails_beside_requests_leaves_the_database_to_answer(filled, caplog):
    now, asked = [0.0], Event()
    opened = [Unavailable("the database does not answer"), filled.read()]

    def open_next():
        one = opened.pop(0)
        if isinstance(one, Unavailable):
            raise one
        assert asked.wait(60)  # a thread that is quick would have read all before it is asked for
        return one

    cache = ProviderCache(NotedChanges(), clock=lambda: now[0], opened=open_next)
    with filled.read() as connection:
        assert not cache.refresh(connection)
        cache.wait(60)
        assert not cache.refresh(connection)
        assert "the database does not answer" in caplog.text
        now[0] += 61
        assert not cache.refresh(connection)
        asked.set()
        cache.wait(60)
        assert cache.refresh(connection)


def test_lost_connection_is_raised(filled, monkeypatch):
    """The database that would answer in place of the cache is asked on the same connection."""

    class Lost(Exception):
        connection_invalidated = True

    log = NotedChanges()
    cache = ProviderCache(log)
    with filled.read() as connection:
        cache.refresh(connection)
        monkeypatch.setattr(log, "read", Mock(side_effect=Lost))
        with pytest.raises(Lost):
            cache.refresh(connection)


@pytest.mark.all_databases
def test_threads_may_ask_while_others_change_the_cloud(filled, settings):
    log = NotedChanges()
    cache, changer = ProviderCache(log), Changer(log, Random(5))
    failed = []

    def ask():
        try:
            for _ in range(30):
                with filled.read() as connection:
                    if cache.refresh(connection):
                        _found(cache, settings)
        except Exception as failure:  # noqa: BLE001 - whatever it is
            failed.append(failure)

    threads = [Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(30):
        changer.change(filled)
    for thread in threads:
        thread.join(timeout=60)
    assert failed == []
    with filled.read() as connection:
        cache.refresh(connection)
        fresh = ProviderCache(NotedChanges())
        fresh.refresh(connection)
    assert _found(cache, settings) == _found(fresh, settings)


@pytest.mark.all_databases
def test_single_precision_ratio_counts_as_it_is_read(database, settings):
    load_cloud(database, Cloud((provider("CN"),)))
    more = build_stock("VCPU", 10, used=18, allocation_ratio=1.9)
    load_cloud(database, Cloud((Host("tenth", more),)))
    cache = ProviderCache(NotedChanges())
    with database.read() as connection:
        cache.refresh(connection)
    assert _found(cache, settings) == [uuid_of("tenth")]


@pytest.mark.all_databases
def test_tree_is_found_by_a_uuid_as_the_database_compares_it(filled, settings):
    """OpenStack's service keeps a uuid as it was written; MariaDB finds it in any case."""
    changed = resource_providers.c.uuid == uuid_of("CN1")
    upper = update(resource_providers).values(uuid=uuid_of("CN1").upper())
    filled.write(lambda connection: connection.execute(upper.where(changed)))
    group = RequestGroup(resources=(("VCPU", 1),), in_tree=uuid_of("CN1"))
    query, cache = CandidatesQuery(groups=(group,)), ProviderCache(NotedChanges())
    found = []
    with filled.read() as connection:
        cache.refresh(connection)
        for source in (LoadedProviders(connection), CachedProviders(cache)):
            answer = find(source, prepare(source, query), settings, Random(1))
            found.append([request.root_uuid for request in answer.requests])
    on_mariadb = filled.url.get_backend_name() == "mysql"
    assert found == [[uuid_of("CN1").upper()] if on_mariadb else []] * 2


class TestComparing:
    """All providers are compared with the database; what differs is repaired and counted."""

    @pytest.mark.all_databases
    def test_nothing_differs_where_the_log_has_every_change(self, filled):
        log = NotedChanges()
        cache, changer = ProviderCache(log), Changer(log, Random(7))
        with filled.read() as connection:
            cache.refresh(connection)
            for _ in range(40):
                changer.change(filled)
                assert cache.compare(connection) == frozenset()
                cache.refresh(connection)
                assert cache.compare(connection) == frozenset()
        assert cache.figures.repairs == 0

    @pytest.mark.all_databases
    @pytest.mark.parametrize("column", ["generation", "used"])
    def test_change_that_the_log_missed_is_repaired(self, filled, settings, column, caplog):
        load_cloud(filled, Cloud((Host("held", build_stock("VCPU", 4, used=2)),)))
        cache = ProviderCache(NotedChanges())
        with filled.read() as connection:
            cache.refresh(connection)
            changed = {
                "generation": update(resource_providers).values(generation=99),
                "used": update(allocations).values(used=4),
            }[column]
            filled.write(lambda writing: writing.execute(changed))
            assert cache.refresh(connection)
            assert (uuid_of("held") in _found(cache, settings)) is True
            found = cache.compare(connection)
            assert len(found) == (4 if column == "generation" else 1)
            assert cache.compare(connection) == frozenset()
        assert cache.figures.repairs == len(found)
        assert "differ from the database" in caplog.text
        assert (uuid_of("held") in _found(cache, settings)) == (column == "generation")

    def test_nothing_is_repaired_while_rows_of_the_log_are_missing(self, filled):
        """A node of a cluster that is late also has providers as they were."""
        log = NotedChanges()
        cache = ProviderCache(log)
        with filled.read() as connection:
            cache.refresh(connection)
            older = update(resource_providers).values(generation=99)
            filled.write(lambda writing: writing.execute(older))
            log.lacking = True
            assert cache.compare(connection) == frozenset()
            log.lacking = False
            assert len(cache.compare(connection)) == 3

    def test_provider_that_came_or_went_unseen_is_repaired(self, filled, settings):
        cache = ProviderCache(NotedChanges())
        with filled.read() as connection:
            cache.refresh(connection)
            load_cloud(filled, Cloud((provider("new", {"VCPU": 4}),)))
            assert len(cache.compare(connection)) == 1
        assert uuid_of("new") in _found(cache, settings)


def test_rows_that_are_missing_for_long_let_everything_be_read_again(filled):
    """A node of a Galera cluster may be behind for a moment; a restored backup stays."""
    log, now = NotedChanges(), [0.0]
    cache = ProviderCache(log, clock=lambda: now[0])
    with filled.read() as connection:
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


def test_late_rows_are_looked_for_from_time_to_time(filled):
    log, now = NotedChanges(), [0.0]
    cache = ProviderCache(log, clock=lambda: now[0])
    with filled.read() as connection:
        cache.refresh(connection)
        log.late = frozenset({10**6})
        assert cache.refresh(connection)
        assert cache.figures.refreshes == 0
        now[0] += cache_module.MAX_LATE_PAUSE
        assert cache.refresh(connection)
    assert cache.figures.refreshes == 1


def test_end_of_a_long_transaction_is_looked_at_once_a_second(filled):
    log, now = NotedChanges(), [10.0]
    cache = ProviderCache(log, clock=lambda: now[0])
    with filled.read() as connection:
        cache.refresh(connection)
        log.late, log.has_late_rows = frozenset({10**6}), True
        assert cache.refresh(connection)
        assert cache.figures.refreshes == 0
        log.has_late_rows = False
        now[0] += cache_module.MIN_LATE_PAUSE
        assert cache.refresh(connection)
        assert cache.figures.refreshes == 1
