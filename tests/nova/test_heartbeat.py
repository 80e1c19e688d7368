# SPDX-License-Identifier: Apache-2.0
"""The service record of a scheduler's heartbeat, and log lines on other schedulers."""

import logging
import os
from datetime import timedelta
from time import sleep

import pytest
import sqlalchemy as sa

from placement_sched.db.transaction import Database
from placement_sched.nova.service import Heartbeat, count_workers
from placement_sched.store.compute import services
from tests.conftest import make_settings
from tests.nova.scheduling import wait_until_true
from tests.nova.service_records import NOW, SERVICES_TABLE, add_service, read_service_rows
from tests.support.concurrency import join_threads
from tests.support.states import ManualClock, build_settings


@pytest.fixture
def nova(tmp_path):
    engine = sa.create_engine(f"sqlite:///{tmp_path}/nova.db")
    SERVICES_TABLE.create(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def clock():
    return ManualClock(NOW)


@pytest.fixture
def make_heartbeat(sqlite_url, nova, clock):
    heartbeats = []

    def build_heartbeat(host, **options):
        nova_url = nova.url.render_as_string()
        options = {"database__connection": nova_url, "DEFAULT__host": host, **options}
        settings = make_settings(sqlite_url, DEFAULT__service_down_time=60, **options)
        database = Database(settings)
        heartbeats.append((database, Heartbeat(database, settings, clock)))
        return heartbeats[-1][1]

    yield build_heartbeat
    for _, heartbeat in heartbeats:
        heartbeat.stop()
    join_threads("heartbeat")
    for database, heartbeat in heartbeats:
        heartbeat.stop()  # the thread may have opened a connection after the first call
        database.dispose()


def list_logged_messages(caplog):
    return [
        record.getMessage()
        for record in caplog.records
        if record.name.startswith("placement_sched")
    ]


def test_heartbeat_is_written_to_both_databases(make_heartbeat, nova, sqlite_database, caplog):
    make_heartbeat("ctl1").beat()
    assert read_service_rows(nova, "host", "binary") == [("ctl1", "nova-scheduler")]
    with sqlite_database.read() as connection:
        (service,) = services.search(connection)
    assert (service.host, service.binary, service.last_seen_up) == ("ctl1", "nova-scheduler", NOW)
    assert list_logged_messages(caplog) == []


@pytest.mark.parametrize("interval", [0, -1])
def test_heartbeat_without_report_interval_is_written_at_the_start_only(
    make_heartbeat, nova, interval, caplog
):
    heartbeat = make_heartbeat("ctl1", DEFAULT__report_interval=interval)
    heartbeat.start()
    wait_until_true(lambda: read_service_rows(nova, "report_count") != [])
    sleep(0.1)  # further heartbeats would follow without a pause
    assert read_service_rows(nova, "report_count") == [(1,)]
    assert list_logged_messages(caplog) == []


@pytest.mark.parametrize(("configured", "requested"), [(None, None), (0, None), (0, 3), (2, None)])
def test_zero_workers_mean_a_worker_for_each_processor(configured, requested):
    settings = build_settings(scheduler__workers=configured)
    expected = requested or configured or len(os.sched_getaffinity(0))
    assert count_workers(settings, requested) == expected


def test_running_nova_scheduler_and_its_end_are_logged_once_each(
    make_heartbeat, nova, clock, caplog
):
    caplog.set_level(logging.INFO)
    heartbeat = make_heartbeat("ctl1")
    add_service(nova, "ctl2")
    heartbeat.beat()
    heartbeat.beat()
    (line,) = list_logged_messages(caplog)
    assert line.startswith("nova-scheduler on ctl2 is up and answers part of the requests")
    caplog.clear()
    clock.now += timedelta(seconds=61)
    heartbeat.beat()
    assert list_logged_messages(caplog) == ["nova-scheduler on ctl2 is not up any more"]


def test_placement_sched_on_another_host_is_not_logged_as_nova_scheduler(make_heartbeat, caplog):
    make_heartbeat("ctl2").beat()
    make_heartbeat("ctl1").beat()
    assert list_logged_messages(caplog) == []


def test_replacement_by_nova_scheduler_is_logged(make_heartbeat, nova, clock, caplog):
    make_heartbeat("ctl2").beat()
    clock.now += timedelta(seconds=61)
    with nova.begin() as connection:
        connection.execute(sa.update(SERVICES_TABLE).values(last_seen_up=clock.now))
    make_heartbeat("ctl1").beat()
    (line,) = list_logged_messages(caplog)
    assert line.startswith("nova-scheduler on ctl2 is up")


def test_second_service_with_the_same_record_is_logged_once_each(make_heartbeat, caplog):
    mine, other = make_heartbeat("ctl1"), make_heartbeat("ctl1")
    mine.beat()
    for _ in range(2):
        other.beat()
        mine.beat()
    of_mine = [
        line for line in list_logged_messages(caplog) if line.startswith("another service writes")
    ]
    assert len(of_mine) == 2


def test_unavailable_database_is_logged_once(make_heartbeat, tmp_path, caplog):
    nowhere = f"sqlite:///{tmp_path}/nowhere/nova.db"
    heartbeat = make_heartbeat("ctl1", database__connection=nowhere)
    heartbeat.beat()
    heartbeat.beat()
    (line,) = list_logged_messages(caplog)
    assert line.startswith("the heartbeat cannot be written: ")


def test_missing_nova_database_is_logged_as_unlisted_service(make_heartbeat, caplog):
    heartbeat = make_heartbeat("ctl1", database__connection="")
    heartbeat.start()
    assert "[database] connection is not set" in list_logged_messages(caplog)[0]
