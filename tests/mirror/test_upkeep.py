"""When the mirror is read, brought up to date and done without."""

from random import Random
from threading import Event, Thread
from unittest.mock import Mock

import pytest
from sqlalchemy import select, update

from placement_sched.candidates.loader import LoadedProviders
from placement_sched.candidates.providers import CachedProviders
from placement_sched.candidates.search import find, prepare
from placement_sched.db.tables import allocations, resource_providers
from placement_sched.errors import Unavailable
from placement_sched.mirror import upkeep
from placement_sched.mirror.upkeep import Mirror
from placement_sched.model.placement.query import CandidatesQuery, RequestGroup
from placement_sched.store.placement import provider_state
from tests.candidates.documented import provider
from tests.candidates.reload import reload
from tests.clouds import Cloud, Host, load, stock, uuid_of
from tests.mirror.changing import Changer, NotedChanges
from tests.statements import counted

QUERY = CandidatesQuery(groups=(RequestGroup(resources=(("VCPU", 1),)),))
CLOUD = Cloud(tuple(provider(f"CN{number}", {"VCPU": 4}) for number in range(3)))


@pytest.fixture
def filled(database):
    reload(database, CLOUD)
    return database


def _found(mirror, settings):
    source = CachedProviders(mirror)
    found = find(source, prepare(source, QUERY), settings, Random(1))
    return [request.root_uuid for request in found.requests]


def test_all_that_is_asked_takes_no_statement(filled, settings):
    mirror = Mirror(NotedChanges())
    with filled.read() as connection:
        assert mirror.bring_up_to_date(connection)
    with counted(filled) as seen:
        assert _found(mirror, settings) == [uuid_of(f"CN{number}") for number in range(3)]
    assert seen == []


def test_what_changed_is_read_with_one_statement(filled, settings):
    log = NotedChanges()
    mirror, changer = Mirror(log), Changer(log, Random(3))
    with filled.read() as connection:
        mirror.bring_up_to_date(connection)
        for _ in range(20):
            changer.change(filled)
        log.names = False
        with counted(filled) as seen:
            assert mirror.bring_up_to_date(connection)
        assert len(seen) == 1
        with counted(filled) as seen:
            assert mirror.bring_up_to_date(connection)
        assert seen == []


def test_without_a_log_there_is_no_mirror_and_it_is_asked_for_again_later(filled):
    now = [0.0]
    log = NotedChanges(kept=False)
    mirror = Mirror(log, clock=lambda: now[0])
    with filled.read() as connection:
        assert not mirror.bring_up_to_date(connection)
        log.kept = True
        assert not mirror.bring_up_to_date(connection)
        now[0] += 61
        assert mirror.bring_up_to_date(connection)


def test_log_in_doubt_lets_everything_be_read_again(filled, settings):
    log = NotedChanges()
    mirror = Mirror(log)
    with filled.read() as connection:
        mirror.bring_up_to_date(connection)
        load(filled, Cloud((provider("new", {"VCPU": 4}),)))
        assert mirror.bring_up_to_date(connection)
        assert uuid_of("new") not in _found(mirror, settings)
        log.doubted = True
        assert mirror.bring_up_to_date(connection)
    assert uuid_of("new") in _found(mirror, settings)
    assert mirror.figures.full_readings == 2


def test_log_that_is_no_longer_kept_leaves_no_mirror(filled):
    """As after a sync that removed the triggers: the database is searched from then on."""
    log = NotedChanges()
    mirror = Mirror(log)
    with filled.read() as connection:
        assert mirror.bring_up_to_date(connection)
        log.doubted, log.kept = True, False
        assert not mirror.bring_up_to_date(connection)
        assert not mirror.bring_up_to_date(connection)


def test_log_that_stays_in_doubt_leaves_no_mirror(filled, monkeypatch):
    log = NotedChanges(doubted=True)
    monkeypatch.setattr(log, "begin", lambda _connection: 0)
    mirror = Mirror(log)
    with filled.read() as connection:
        assert not mirror.bring_up_to_date(connection)
        assert log.asked == 1
        assert not mirror.bring_up_to_date(connection)
        assert log.asked == 1


def test_very_many_changes_let_everything_be_read_again(filled, settings, monkeypatch):
    monkeypatch.setattr(upkeep, "MANY", 1)
    log = NotedChanges()
    mirror = Mirror(log)
    with filled.read() as connection:
        mirror.bring_up_to_date(connection)
        load(filled, Cloud((provider("new", {"VCPU": 4}),)))
        log.noted += connection.scalars(select(resource_providers.c.id)).all()
        assert mirror.bring_up_to_date(connection)
    assert uuid_of("new") in _found(mirror, settings)
    assert (mirror.figures.full_readings, mirror.figures.refreshes) == (2, 0)


def test_what_changes_while_all_is_read_is_read_again(filled, settings, monkeypatch):
    log = NotedChanges()
    mirror = Mirror(log)
    begin = log.begin

    def begin_before_a_change(connection):
        position = begin(connection)
        load(filled, Cloud((provider("late", {"VCPU": 4}),)))
        log.noted.append(10**6)
        return position

    monkeypatch.setattr(log, "begin", begin_before_a_change)
    with filled.read() as connection:
        assert mirror.bring_up_to_date(connection)
        assert log.asked == 2
    assert uuid_of("late") in _found(mirror, settings)


def test_change_that_fails_leaves_no_mirror_half_changed(filled, settings, monkeypatch):
    """The request is answered by the database; everything is read again after a while."""
    log, now = NotedChanges(), [0.0]
    mirror = Mirror(log, clock=lambda: now[0])
    with filled.read() as connection:
        mirror.bring_up_to_date(connection)
        log.noted += connection.scalars(select(resource_providers.c.id)).all()
        with monkeypatch.context() as broken:
            broken.setattr("placement_sched.mirror.cloud.MirroredCloud._associate", None)
            assert not mirror.bring_up_to_date(connection)
        with pytest.raises(Unavailable):
            _found(mirror, settings)
        assert not mirror.bring_up_to_date(connection)
        now[0] += 61
        assert mirror.bring_up_to_date(connection)
    assert len(_found(mirror, settings)) == 3


@pytest.mark.all_databases
def test_nothing_waits_for_another_that_reads_everything(filled, settings, monkeypatch):
    log, reading, enough = NotedChanges(), Event(), Event()
    mirror = Mirror(log)
    read_all = provider_state.read_all_providers

    def slowly(connection):
        reading.set()
        assert enough.wait(timeout=60)
        return read_all(connection)

    def read_again():
        with filled.read() as connection:
            mirror.bring_up_to_date(connection)

    with filled.read() as connection:
        assert mirror.bring_up_to_date(connection)
        monkeypatch.setattr(provider_state, "read_all_providers", slowly)
        monkeypatch.setattr(upkeep, "PATIENCE", 0.01)
        monkeypatch.setattr(log, "begin", lambda _connection: 0)
        log.doubted = True
        thread = Thread(target=read_again)
        thread.start()
        assert reading.wait(timeout=60)
        assert not mirror.bring_up_to_date(connection)
        log.doubted = False
        enough.set()
        thread.join(timeout=60)
        assert mirror.bring_up_to_date(connection)
    assert mirror.figures.full_readings == 2


def test_database_answers_while_a_thread_reads_all(filled, settings, monkeypatch):
    """At the start, and where the log is in doubt; what was asked before is answered still."""
    log, enough = NotedChanges(), Event()
    read_all = provider_state.read_all_providers

    def slowly(connection):
        assert enough.wait(timeout=60)
        return read_all(connection)

    monkeypatch.setattr(provider_state, "read_all_providers", slowly)
    mirror = Mirror(log, opened=filled.read)
    with filled.read() as connection:
        for readings in (1, 2):
            assert not mirror.bring_up_to_date(connection)
            assert not mirror.bring_up_to_date(connection)
            enough.set()
            mirror.wait(60)
            assert mirror.bring_up_to_date(connection)
            assert mirror.figures.full_readings == readings
            enough.clear()
            log.doubted = True
            assert not mirror.bring_up_to_date(connection)
            assert len(_found(mirror, settings)) == 3
            log.doubted = False
        enough.set()
        mirror.wait(60)


def test_reading_that_fails_beside_requests_leaves_the_database_to_answer(filled, caplog):
    now, asked = [0.0], Event()
    opened = [Unavailable("the database does not answer"), filled.read()]

    def open_next():
        one = opened.pop(0)
        if isinstance(one, Unavailable):
            raise one
        assert asked.wait(60)  # a thread that is quick would have read all before it is asked for
        return one

    mirror = Mirror(NotedChanges(), clock=lambda: now[0], opened=open_next)
    with filled.read() as connection:
        assert not mirror.bring_up_to_date(connection)
        mirror.wait(60)
        assert not mirror.bring_up_to_date(connection)
        assert "the database does not answer" in caplog.text
        now[0] += 61
        assert not mirror.bring_up_to_date(connection)
        asked.set()
        mirror.wait(60)
        assert mirror.bring_up_to_date(connection)


def test_lost_connection_is_raised(filled, monkeypatch):
    """The database that would answer in place of the mirror is asked on the same connection."""

    class Lost(Exception):
        connection_invalidated = True

    log = NotedChanges()
    mirror = Mirror(log)
    with filled.read() as connection:
        mirror.bring_up_to_date(connection)
        monkeypatch.setattr(log, "read", Mock(side_effect=Lost))
        with pytest.raises(Lost):
            mirror.bring_up_to_date(connection)


@pytest.mark.all_databases
def test_threads_may_ask_while_others_change_the_cloud(filled, settings):
    log = NotedChanges()
    mirror, changer = Mirror(log), Changer(log, Random(5))
    failed = []

    def ask():
        try:
            for _ in range(30):
                with filled.read() as connection:
                    if mirror.bring_up_to_date(connection):
                        _found(mirror, settings)
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
        mirror.bring_up_to_date(connection)
        fresh = Mirror(NotedChanges())
        fresh.bring_up_to_date(connection)
    assert _found(mirror, settings) == _found(fresh, settings)


@pytest.mark.all_databases
def test_single_precision_ratio_counts_as_it_is_read(database, settings):
    load(database, Cloud((provider("CN"),)))
    more = stock("VCPU", 10, used=18, allocation_ratio=1.9)
    load(database, Cloud((Host("tenth", more),)))
    mirror = Mirror(NotedChanges())
    with database.read() as connection:
        mirror.bring_up_to_date(connection)
    assert _found(mirror, settings) == [uuid_of("tenth")]


@pytest.mark.all_databases
def test_tree_is_found_by_a_uuid_as_the_database_compares_it(filled, settings):
    """OpenStack's service keeps a uuid as it was written; MariaDB finds it in any case."""
    changed = resource_providers.c.uuid == uuid_of("CN1")
    upper = update(resource_providers).values(uuid=uuid_of("CN1").upper())
    filled.write(lambda connection: connection.execute(upper.where(changed)))
    group = RequestGroup(resources=(("VCPU", 1),), in_tree=uuid_of("CN1"))
    query, mirror = CandidatesQuery(groups=(group,)), Mirror(NotedChanges())
    found = []
    with filled.read() as connection:
        mirror.bring_up_to_date(connection)
        for source in (LoadedProviders(connection), CachedProviders(mirror)):
            answer = find(source, prepare(source, query), settings, Random(1))
            found.append([request.root_uuid for request in answer.requests])
    on_mariadb = filled.url.get_backend_name() == "mysql"
    assert found == [[uuid_of("CN1").upper()] if on_mariadb else []] * 2


class TestComparing:
    """All providers are compared with the database; what differs is repaired and counted."""

    @pytest.mark.all_databases
    def test_nothing_differs_where_the_log_has_every_change(self, filled):
        log = NotedChanges()
        mirror, changer = Mirror(log), Changer(log, Random(7))
        with filled.read() as connection:
            mirror.bring_up_to_date(connection)
            for _ in range(40):
                changer.change(filled)
                assert mirror.compare(connection) == frozenset()
                mirror.bring_up_to_date(connection)
                assert mirror.compare(connection) == frozenset()
        assert mirror.figures.repairs == 0

    @pytest.mark.all_databases
    @pytest.mark.parametrize("column", ["generation", "used"])
    def test_change_that_the_log_missed_is_repaired(self, filled, settings, column, caplog):
        load(filled, Cloud((Host("held", stock("VCPU", 4, used=2)),)))
        mirror = Mirror(NotedChanges())
        with filled.read() as connection:
            mirror.bring_up_to_date(connection)
            changed = {
                "generation": update(resource_providers).values(generation=99),
                "used": update(allocations).values(used=4),
            }[column]
            filled.write(lambda writing: writing.execute(changed))
            assert mirror.bring_up_to_date(connection)
            assert (uuid_of("held") in _found(mirror, settings)) is True
            found = mirror.compare(connection)
            assert len(found) == (4 if column == "generation" else 1)
            assert mirror.compare(connection) == frozenset()
        assert mirror.figures.repairs == len(found)
        assert "differ from the database" in caplog.text
        assert (uuid_of("held") in _found(mirror, settings)) == (column == "generation")

    def test_nothing_is_repaired_while_rows_of_the_log_are_missing(self, filled):
        """A node of a cluster that is late also has providers as they were."""
        log = NotedChanges()
        mirror = Mirror(log)
        with filled.read() as connection:
            mirror.bring_up_to_date(connection)
            older = update(resource_providers).values(generation=99)
            filled.write(lambda writing: writing.execute(older))
            log.lacking = True
            assert mirror.compare(connection) == frozenset()
            log.lacking = False
            assert len(mirror.compare(connection)) == 3

    def test_provider_that_came_or_went_unseen_is_repaired(self, filled, settings):
        mirror = Mirror(NotedChanges())
        with filled.read() as connection:
            mirror.bring_up_to_date(connection)
            load(filled, Cloud((provider("new", {"VCPU": 4}),)))
            assert len(mirror.compare(connection)) == 1
        assert uuid_of("new") in _found(mirror, settings)


def test_rows_that_are_missing_for_long_let_everything_be_read_again(filled):
    """A node of a Galera cluster may be behind for a moment; a restored backup stays."""
    log, now = NotedChanges(), [0.0]
    mirror = Mirror(log, clock=lambda: now[0])
    with filled.read() as connection:
        assert mirror.bring_up_to_date(connection)
        log.lacking = True
        assert not mirror.bring_up_to_date(connection)
        log.lacking = False
        assert mirror.bring_up_to_date(connection)
        log.lacking = True
        assert not mirror.bring_up_to_date(connection)
        assert mirror.figures.full_readings == 1
        now[0] += upkeep.MAX_LAG
        assert mirror.bring_up_to_date(connection)
    assert mirror.figures.full_readings == 2


def test_late_rows_are_looked_for_from_time_to_time(filled):
    log, now = NotedChanges(), [0.0]
    mirror = Mirror(log, clock=lambda: now[0])
    with filled.read() as connection:
        mirror.bring_up_to_date(connection)
        log.late = frozenset({10**6})
        assert mirror.bring_up_to_date(connection)
        assert mirror.figures.refreshes == 0
        now[0] += upkeep.MAX_LATE_PAUSE
        assert mirror.bring_up_to_date(connection)
    assert mirror.figures.refreshes == 1


def test_end_of_a_long_transaction_is_looked_at_once_a_second(filled):
    log, now = NotedChanges(), [10.0]
    mirror = Mirror(log, clock=lambda: now[0])
    with filled.read() as connection:
        mirror.bring_up_to_date(connection)
        log.late, log.has_late_rows = frozenset({10**6}), True
        assert mirror.bring_up_to_date(connection)
        assert mirror.figures.refreshes == 0
        log.has_late_rows = False
        now[0] += upkeep.MIN_LATE_PAUSE
        assert mirror.bring_up_to_date(connection)
        assert mirror.figures.refreshes == 1
