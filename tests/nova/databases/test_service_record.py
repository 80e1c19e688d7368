# SPDX-License-Identifier: Apache-2.0
"""The record of this scheduler in nova's services."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from placement_sched.errors import Unavailable
from placement_sched.nova.databases.service_record import find_record
from tests.conftest import make_settings
from tests.nova.service_records import NOW, SERVICES_TABLE, add_service, read_service_rows

pytestmark = pytest.mark.all_databases


@pytest.fixture
def nova(database_url):
    engine = sa.create_engine(database_url)
    SERVICES_TABLE.create(engine)
    yield engine
    SERVICES_TABLE.drop(engine)
    engine.dispose()


@pytest.fixture
def make_service_record(nova, database_url):
    created = []

    def read_record(host):
        options = {"DEFAULT__host": host, "DEFAULT__service_down_time": 60}
        row = find_record(make_settings(database_url, database__connection=database_url, **options))
        created.append(row)
        return row

    yield read_record
    for one in created:
        one.close()


def test_first_heartbeat_creates_the_service_record(nova, make_service_record):
    make_service_record("ctl1").beat(NOW)
    columns = ("host", "binary", "topic", "report_count", "disabled", "last_seen_up", "deleted")
    rows = read_service_rows(nova, *columns)
    assert rows == [("ctl1", "nova-scheduler", "scheduler", 1, False, NOW, 0)]
    ((uuid, created),) = read_service_rows(nova, "uuid", "created_at")
    assert len(uuid) == 36
    assert created == NOW


def test_later_heartbeats_update_time_and_report_count(nova, make_service_record):
    record = make_service_record("ctl1")
    record.beat(NOW)
    later = NOW + timedelta(seconds=10)
    assert not record.beat(later).shared
    rows = read_service_rows(nova, "report_count", "last_seen_up", "updated_at")
    assert rows == [(2, later, later)]


def test_existing_nova_scheduler_record_of_the_host_is_reused(nova, make_service_record):
    add_service(nova, "ctl1", disabled=True, disabled_reason="for now")
    make_service_record("ctl1").beat(NOW)
    rows = read_service_rows(nova, "report_count", "disabled", "disabled_reason")
    assert rows == [(8, True, "for now")]


def test_other_service_records_are_unchanged(nova, make_service_record):
    add_service(nova, "ctl2")
    add_service(nova, "ctl1", "nova-conductor")
    add_service(nova, "ctl1", deleted=3)
    before = read_service_rows(nova, *SERVICES_TABLE.c.keys())
    make_service_record("ctl1").beat(NOW + timedelta(seconds=10))
    assert read_service_rows(nova, *SERVICES_TABLE.c.keys())[:3] == before


@pytest.mark.parametrize(
    ("seen", "version"), [(NOW, 70), (NOW - timedelta(seconds=61), 0)], ids=["up", "down"]
)
def test_version_is_the_highest_of_services_that_are_up(nova, make_service_record, seen, version):
    add_service(nova, "ctl1", "nova-conductor", version=69, last_seen_up=seen)
    add_service(nova, "cn1", "nova-compute", version=70, last_seen_up=seen)
    add_service(nova, "cn2", "nova-compute", version=71, deleted=4)
    make_service_record("ctl1").beat(NOW)
    assert read_service_rows(nova, "host", "version")[-1] == ("ctl1", version)


def test_schedulers_on_other_hosts_are_found(nova, make_service_record):
    add_service(nova, "ctl2")
    add_service(nova, "ctl3", last_seen_up=NOW - timedelta(seconds=61))
    add_service(nova, "ctl4", "nova-conductor")
    add_service(nova, "ctl5", deleted=5)
    assert make_service_record("ctl1").beat(NOW).others == {"ctl2"}


def test_concurrent_writer_of_the_record_is_detected(nova, make_service_record):
    mine, other = make_service_record("ctl1"), make_service_record("ctl1")
    assert not mine.beat(NOW).shared
    other.beat(NOW)
    assert mine.beat(NOW).shared
    assert not mine.beat(NOW).shared


def lose_reply_to_next_commit(engine, *, done):
    dialect = engine.dialect
    commit = dialect.do_commit

    def raise_lost_reply(connection):
        dialect.do_commit = commit
        (commit if done else dialect.do_rollback)(connection)
        raise dialect.loaded_dbapi.OperationalError("the connection was lost")

    dialect.do_commit = raise_lost_reply


@pytest.mark.parametrize("done", [True, False], ids=["committed", "not committed"])
def test_heartbeat_with_a_lost_commit_reply_is_not_a_concurrent_writer(
    nova, make_service_record, done
):
    mine, other = make_service_record("ctl1"), make_service_record("ctl1")
    mine.beat(NOW)
    lose_reply_to_next_commit(mine._engine, done=done)
    with pytest.raises(Unavailable):
        mine.beat(NOW)
    assert read_service_rows(nova, "report_count") == [(2 if done else 1,)]
    assert not mine.beat(NOW).shared
    assert not mine.beat(NOW).shared
    other.beat(NOW)
    assert mine.beat(NOW).shared


def test_failed_read_of_other_services_is_not_reported_as_a_concurrent_writer(
    make_service_record, monkeypatch
):
    mine = make_service_record("ctl1")
    mine.beat(NOW)
    with monkeypatch.context() as broken:
        broken.setattr(mine, "_find_other_hosts", raise_unavailable)
        with pytest.raises(Unavailable):
            mine.beat(NOW)
    assert not mine.beat(NOW).shared


def raise_unavailable(*_):
    raise Unavailable("the database does not answer")


def test_unreachable_database_is_unavailable(tmp_path):
    url = f"sqlite:///{tmp_path}/nowhere/nova.db"
    record = find_record(make_settings("sqlite://", database__connection=url, DEFAULT__host="ctl1"))
    with pytest.raises(Unavailable):
        record.beat(NOW)


def test_no_service_record_without_nova_database():
    assert find_record(make_settings("sqlite://")) is None
