# SPDX-License-Identifier: Apache-2.0
"""Databases of recorded releases: upgraded, and shared by old and new workers.

The old workers are the recorded columns of a release: they insert and select no others. Tests with
processes of an older release are in ``tests/deploy/test_rolling_upgrade.py``.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from webtest import TestApp

from placement_sched.db.migrate import get_newest_revision, read_current_revision, sync_schema
from placement_sched.db.transaction import Database
from placement_sched.operations.prepare import sync
from tests.conftest import make_settings
from tests.db.recorded_release import (
    RECORDED_VERSIONS,
    REQUEST_HEADERS,
    RecordedRelease,
    read_responses,
)
from tests.docs import samples
from tests.support.empty_databases import DATABASE_KINDS, empty_database
from tests.support.scheduling import make_flavor, make_report, make_spec, make_uuid
from tests.support.schema_differences import find_schema_differences

pytestmark = pytest.mark.slow


@pytest.fixture(params=RECORDED_VERSIONS)
def recorded_release(request) -> RecordedRelease:
    return RecordedRelease.load_release(request.param)


@pytest.fixture(params=DATABASE_KINDS)
def database(request, tmp_path) -> Iterator[Database]:
    with empty_database(request.param, tmp_path) as url:
        database = Database(make_settings(url, DEFAULT__service_down_time=60))
        yield database
        database.dispose()


@pytest.fixture
def start_server_of_this_version(database, make_app) -> Callable[[], TestApp]:
    """Give a function that starts this version on the database, at the time of the record."""
    return lambda: make_app(
        make_settings(
            database.url.render_as_string(hide_password=False), DEFAULT__service_down_time=60
        ),
        clock=lambda: samples.SAMPLE_TIME,
    )


def find_lost_json_paths(old: Any, new: Any, path: str = "$") -> list[str]:
    """Return the paths of ``old`` that ``new`` lacks. New keys of objects are allowed."""
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        old, new = dict(enumerate(old)), dict(enumerate(new))
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return [] if old == new else [path]
    lost = [f"{path}.{key}" for key in old if key not in new]
    for key in old.keys() & new.keys():
        lost += find_lost_json_paths(old[key], new[key], f"{path}.{key}")
    return lost


def find_lost_values_of_responses(recorded_release: RecordedRelease, client: TestApp) -> list[str]:
    """Return the paths of recorded responses that this version does not give."""
    return find_lost_json_paths(recorded_release.responses, read_responses(client))


def test_upgraded_database_keeps_its_rows_and_columns_of_old_workers(
    recorded_release, database, start_server_of_this_version
):
    recorded_release.create_schema(database)
    recorded_release.write_rows(database)
    sync(database, lambda: samples.SAMPLE_TIME)
    assert read_current_revision(database) == get_newest_revision()
    assert find_schema_differences(database) == []
    client = start_server_of_this_version()
    assert find_lost_values_of_responses(recorded_release, client) == []
    node = make_report("cn9")
    client.post_json("/scheduler/v1/compute_nodes", [node], headers=REQUEST_HEADERS)
    body = {"request_spec": make_spec(make_uuid(1), force_hosts=["cn9"])}
    client.post_json("/scheduler/v1/select_destinations", body, headers=REQUEST_HEADERS)
    client.post_json(
        "/compute/v2.1/os-aggregates", {"aggregate": {"name": "row-1"}}, headers=REQUEST_HEADERS
    )
    body = {"host": "cn9", "node": "cn9", "flavor": make_flavor()}
    client.put_json(f"/scheduler/v1/instances/{make_uuid(2)}", body, headers=REQUEST_HEADERS)
    with database.read() as connection:
        rows = {
            name: connection.execute(sa.select(table)).mappings().all()
            for name, table in recorded_release.tables().items()
        }
    unfilled = {
        f"{name}.{column.name}"
        for name, table in recorded_release.tables().items()
        for column in table.columns
        for row in rows[name]
        if not column.nullable and row[column.name] is None
    }
    assert unfilled == set()
    assert node["uuid"] in {row["uuid"] for row in rows["sched_compute_nodes"]}
    (provider,) = (row for row in rows["resource_providers"] if row["uuid"] == node["uuid"])
    used = {
        row["used"]
        for row in rows["allocations"]
        if row["consumer_id"] == make_uuid(1) and row["resource_provider_id"] == provider["id"]
    }
    assert used == {1, 1024, 10}
    assert {make_uuid(1), make_uuid(2)} <= {row["uuid"] for row in rows["sched_instances"]}
    assert "row-1" in {row["name"] for row in rows["sched_aggregates"]}


def test_rows_written_by_workers_of_the_old_release_are_readable(
    recorded_release, database, start_server_of_this_version
):
    recorded_release.create_schema(database)
    sync_schema(database)
    recorded_release.write_rows(database)
    sync(database, lambda: samples.SAMPLE_TIME)
    assert find_lost_values_of_responses(recorded_release, start_server_of_this_version()) == []
