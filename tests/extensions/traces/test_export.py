# SPDX-License-Identifier: Apache-2.0
"""``trace export``: traces from decisions and records of instances."""

from datetime import datetime, timedelta

import pytest

from placement_sched.extensions.traces.events import format_trace, read_trace
from placement_sched.extensions.traces.export import export_events
from placement_sched.model.clock import utcnow
from placement_sched.store import decisions
from placement_sched.store.compute import ended_instances
from tests.cli.conftest import run_cli as run_cli  # noqa: PLC0414 - a fixture
from tests.cli.conftest import run_main as run_main  # noqa: PLC0414 - a fixture
from tests.extensions.traces.recorder import (
    TickingClock,
    assert_equal_servers,
    open_recorder,
    run_recorded,
)
from tests.support.scheduling import make_flavor, make_report, make_spec, make_uuid, select_hosts

pytestmark = pytest.mark.slow

LONG_AGO = datetime(2020, 1, 1)
SMALL, LARGE = make_flavor(name="small"), make_flavor(name="large", vcpus=4, memory_mb=9000)


def export(database, since=LONG_AGO):
    with database.read() as connection:
        return export_events(connection, since)


def describe(events):
    return [(event.kind, *event.servers) for event in events]


@pytest.fixture
def cloud(settings, make_app):
    """Two hosts. A server was created and deleted, another was refused."""
    return make_cloud(settings, make_app)


def make_cloud(settings, make_app):
    clock = TickingClock(utcnow())
    app = make_app(settings, clock=clock)
    app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1"), make_report("cn2")])
    select_hosts(app, make_spec(make_uuid(1), flavor=SMALL))
    clock.advance()
    app.delete(f"/scheduler/v1/instances/{make_uuid(1)}")
    clock.advance()
    select_hosts(app, make_spec(make_uuid(2), flavor=make_flavor(vcpus=500)), status=409)
    select_hosts(app, make_spec(make_uuid(3), make_uuid(4), flavor=LARGE))
    return app


@pytest.mark.all_databases
def test_decisions_and_ends_become_events(cloud, database):
    events = export(database)
    assert describe(events) == [
        ("create", make_uuid(1)),
        ("delete", make_uuid(1)),
        ("create", make_uuid(2)),
        ("create", make_uuid(3), make_uuid(4)),
    ]
    assert events[0].request["flavor"]["name"] == "small"
    assert events[0].decision


def test_servers_without_a_decision_have_their_recorded_request(cloud, database):
    later = utcnow() + timedelta(days=1)
    database.write(lambda connection: decisions.purge(connection, later, 100))
    events = export(database)
    assert sorted(describe(events)) == [
        *[("create", make_uuid(number)) for number in (1, 3, 4)],
        ("delete", make_uuid(1)),
    ]
    create = next(event for event in events if event.servers == (make_uuid(1),))
    assert create.request["flavor"]["name"] == "small"


def test_server_that_existed_before_and_still_exists_has_no_event(cloud, database):
    since = utcnow() + timedelta(days=1)
    assert export(database, since) == []


def test_ends_are_deleted_after_the_retention(cloud, database):
    later = utcnow() + timedelta(days=1)
    database.write(lambda connection: ended_instances.purge(connection, later))
    assert describe(export(database))[:2] == [("create", make_uuid(1)), ("create", make_uuid(2))]


def test_exported_trace_gives_the_recorded_hosts(sqlite_template, tmp_path):
    reports = [make_report(f"cn{number}", memory_mb=16384) for number in range(1, 4)]
    recorder, settings = open_recorder(
        sqlite_template, tmp_path, reports, filter_scheduler__host_subset_size=2
    )
    for number in range(12):
        uuids = recorder.create(LARGE if number % 3 else SMALL)
        if uuids and number % 4 == 3:
            recorder.delete(uuids[0])
        elif uuids and number % 4 == 2:
            recorder.resize(uuids[0], SMALL if number % 3 else LARGE)
    database = recorder.client.app.services.database
    events = export(database)
    assert [event.kind for event in events] == [event.kind for event in recorder.events]
    recorder.events = events
    result = run_recorded(recorder, settings, tmp_path)
    assert_equal_servers(result, recorder)
    assert result.refusals


def test_command_writes_a_trace_that_can_be_read(
    sqlite_settings, sqlite_database, make_app, run_cli, tmp_path
):
    make_cloud(sqlite_settings, make_app)
    file = tmp_path / "trace.jsonl"
    status, _, errors = run_cli("trace", "export", "--since", "1d", str(file))
    assert status == 0, errors
    assert describe(read_trace(str(file)).events) == describe(export(sqlite_database))
    assert file.read_text() == format_trace(export(sqlite_database))


def test_wrong_time_is_an_error(run_cli, tmp_path):
    status, _, errors = run_cli("trace", "export", "--since", "yesterday", str(tmp_path / "t"))
    assert status == 2
    assert "--since: 'yesterday' is neither an age" in errors
