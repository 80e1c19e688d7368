# SPDX-License-Identifier: Apache-2.0
"""What the heartbeat of a scheduler writes, and what it says of other schedulers."""

import logging
from datetime import datetime, timedelta

import pytest
import sqlalchemy as sa

from placement_sched.db.transaction import Database
from placement_sched.nova.service import Heartbeat
from placement_sched.store.compute import services
from tests.conftest import make_settings
from tests.nova.databases.test_service_record import NOW, SERVICES, add, rows


@pytest.fixture
def nova(tmp_path):
    engine = sa.create_engine(f"sqlite:///{tmp_path}/nova.db")
    SERVICES.create(engine)
    yield engine
    engine.dispose()


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def heartbeat_of(sqlite_url, nova, clock):
    made = []

    def heartbeat(host, **options):
        nova_url = nova.url.render_as_string()
        options = {"database__connection": nova_url, "DEFAULT__host": host, **options}
        settings = make_settings(sqlite_url, DEFAULT__service_down_time=60, **options)
        database = Database(settings)
        made.append((database, Heartbeat(database, settings, clock)))
        return made[-1][1]

    yield heartbeat
    for database, one in made:
        one.stop()
        database.dispose()


def told(caplog):
    return [one.getMessage() for one in caplog.records if one.name.startswith("placement_sched")]


def test_heartbeat_is_in_both_databases(heartbeat_of, nova, sqlite_database, caplog):
    heartbeat_of("ctl1").beat()
    assert rows(nova, "host", "binary") == [("ctl1", "nova-scheduler")]
    with sqlite_database.read() as connection:
        (service,) = services.search(connection)
    assert (service.host, service.binary, service.last_seen_up) == ("ctl1", "nova-scheduler", NOW)
    assert told(caplog) == []


def test_nova_scheduler_beside_it_is_told_once_and_again_when_it_is_gone(
    heartbeat_of, nova, clock, caplog
):
    caplog.set_level(logging.INFO)
    heartbeat = heartbeat_of("ctl1")
    add(nova, "ctl2")
    heartbeat.beat()
    heartbeat.beat()
    (line,) = told(caplog)
    assert line.startswith("nova-scheduler on ctl2 is up and answers part of the requests")
    caplog.clear()
    clock.now += timedelta(seconds=61)
    heartbeat.beat()
    assert told(caplog) == ["nova-scheduler on ctl2 is not up any more"]


def test_scheduler_of_this_service_beside_it_is_none_of_nova(heartbeat_of, caplog):
    heartbeat_of("ctl2").beat()
    heartbeat_of("ctl1").beat()
    assert told(caplog) == []


def test_scheduler_of_this_service_that_was_replaced_by_nova_scheduler_is_told(
    heartbeat_of, nova, clock, caplog
):
    heartbeat_of("ctl2").beat()
    clock.now += timedelta(seconds=61)
    with nova.begin() as connection:
        connection.execute(sa.update(SERVICES).values(last_seen_up=clock.now))
    heartbeat_of("ctl1").beat()
    (line,) = told(caplog)
    assert line.startswith("nova-scheduler on ctl2 is up")


def test_service_under_the_same_name_is_told_once(heartbeat_of, caplog):
    mine, other = heartbeat_of("ctl1"), heartbeat_of("ctl1")
    mine.beat()
    for _ in range(2):
        other.beat()
        mine.beat()
    of_mine = [line for line in told(caplog) if line.startswith("another service writes")]
    assert len(of_mine) == 2  # one of each


def test_database_that_is_away_is_told_once(heartbeat_of, tmp_path, caplog):
    nowhere = f"sqlite:///{tmp_path}/nowhere/nova.db"
    heartbeat = heartbeat_of("ctl1", database__connection=nowhere)
    heartbeat.beat()
    heartbeat.beat()
    (line,) = told(caplog)
    assert line.startswith("the heartbeat cannot be written: ")


def test_without_nova_database_it_is_told_that_nova_does_not_list_it(heartbeat_of, caplog):
    heartbeat = heartbeat_of("ctl1", database__connection="")
    heartbeat.start()
    assert "[database] connection is not set" in told(caplog)[0]
