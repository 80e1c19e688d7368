# SPDX-License-Identifier: Apache-2.0
"""A cell with an unavailable database keeps its records while other cells are synced."""

import logging
from datetime import datetime, timedelta
from time import monotonic

import pytest

from placement_sched.errors import Unavailable
from placement_sched.nova.sync import cells as followed
from placement_sched.nova.sync import follower as sync_follower
from placement_sched.nova.sync.cells import RowVersions
from placement_sched.store.compute import cells, compute_nodes, instances, services

NOW = datetime(2026, 1, 1, 12, 0, 0)


@pytest.fixture
def cloud(two_cell_cloud):
    two_cell_cloud.add_host("cn1", "one")
    two_cell_cloud.add_host("cn2", "two")
    return two_cell_cloud


@pytest.fixture
def disable_retry_pauses(monkeypatch):
    monkeypatch.setattr(followed, "PAUSE", 0.0)


def rename_tables(cloud, cell, before, after):
    for name in ("services", "compute_nodes", "instances"):
        with cloud.cells[cell].engine.begin() as connection:
            connection.exec_driver_sql(f"ALTER TABLE {before}{name} RENAME TO {after}{name}")


def make_cell_unavailable(cloud, cell):
    rename_tables(cloud, cell, "", "away_")


def make_cell_available(cloud, cell):
    rename_tables(cloud, cell, "away_", "")


def read_cells(database):
    with database.read() as connection:
        return {cell.name: cell for cell in cells.list_cells(connection)}


@pytest.mark.all_databases
@pytest.mark.usefixtures("disable_retry_pauses")
def test_unavailable_cell_keeps_its_records_and_other_cells_sync(make_follower, cloud, database):
    follower = make_follower(cloud)
    kept = cloud.add_instance("cn2", "two")
    follower.sync_all()
    make_cell_unavailable(cloud, "two")
    new = cloud.add_instance("cn1", "one")
    findings = follower.sync_all()
    follower.sync_changes()
    with database.read() as connection:
        assert {instance.uuid for instance in instances.search(connection)} == {kept, new}
        assert services.map_by_host(connection, ["cn2"])
        assert len(compute_nodes.search(connection)) == 2
    state = read_cells(database)["two"]
    assert findings.away == ("cell two",)
    assert state.is_down
    assert "no such table" in state.failure
    assert not read_cells(database)["one"].is_down


@pytest.mark.usefixtures("disable_retry_pauses")
def test_recovered_cell_is_synced_again(make_follower, cloud, database):
    follower = make_follower(cloud)
    follower.sync_all()
    make_cell_unavailable(cloud, "two")
    follower.refresh()
    assert read_cells(database)["two"].is_down
    make_cell_available(cloud, "two")
    cloud.cells["two"].change("services", {"host": "cn2"}, disabled=True)
    follower.sync_changes()
    with database.read() as connection:
        assert services.map_by_host(connection, ["cn2"])["cn2"].disabled
    state = read_cells(database)["two"]
    assert (state.away_since, state.failure) == (None, None)


@pytest.mark.usefixtures("disable_retry_pauses")
def test_cell_loss_and_recovery_are_logged_once(make_follower, cloud, caplog):
    follower = make_follower(cloud)
    follower.sync_all()
    caplog.set_level(logging.INFO, "placement_sched.nova")
    make_cell_unavailable(cloud, "two")
    for _ in range(3):
        follower.sync_changes()
    make_cell_available(cloud, "two")
    follower.sync_changes()
    follower.sync_changes()
    about = [record.getMessage() for record in caplog.records if "cell two" in record.getMessage()]
    assert ["cannot be read" in one for one in about] == [True, False]


def test_requests_do_not_query_an_unavailable_cell(make_follower, cloud, database):
    follower = make_follower(cloud)
    follower.sync_all()
    make_cell_unavailable(cloud, "two")
    follower.refresh()
    make_cell_available(cloud, "two")
    follower.refresh()
    assert read_cells(database)["two"].is_down


@pytest.fixture
def advance_clock(monkeypatch):
    passed = [0.0]
    start = monotonic()
    for module in (followed, sync_follower):
        monkeypatch.setattr(module, "monotonic", lambda: start + passed[0])

    def advance_by_seconds(seconds):
        passed[0] += seconds

    return advance_by_seconds


def test_background_sync_retries_an_unavailable_cell_early(
    make_follower, cloud, database, advance_clock
):
    follower = make_follower(cloud, **{"scheduler.nova_sync_interval": 3600})
    follower.sync_due()
    make_cell_unavailable(cloud, "two")
    follower.refresh()
    make_cell_available(cloud, "two")
    advance_clock(follower.sync_due() - 0.1)
    follower.sync_due()
    assert read_cells(database)["two"].is_down
    advance_clock(0.1)
    follower.sync_due()
    assert not read_cells(database)["two"].is_down


def test_cell_recovery_seen_by_another_process_resumes_sync(make_follower, cloud, read_service):
    first, second = make_follower(cloud), make_follower(cloud)
    first.sync_all()
    make_cell_unavailable(cloud, "two")
    first.refresh()
    make_cell_available(cloud, "two")
    second.sync_all()
    cloud.cells["two"].change("services", {"host": "cn2"}, forced_down=True)
    first.refresh()
    assert read_service("cn2").forced_down


def test_invalid_url_template_makes_the_cell_unavailable(make_follower, nova, database):
    nova.api.change("cell_mappings", {"name": "one"}, database_connection="{scheme}://{nobody}/x")
    findings = make_follower(nova, **{"database.connection": "mysql://u@h/nova"}).sync_all()
    assert findings.away == ("cell one",)
    assert "'nobody'" in read_cells(database)["one"].failure


def test_hosts_stay_up_without_the_api_database(make_follower, cloud, database, caplog):
    follower = make_follower(cloud)
    follower.sync_all()
    with cloud.api.engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE cell_mappings RENAME TO away")
    cloud.cells["one"].change("services", {"host": "cn1"}, forced_down=True)
    follower._full_due += 3600
    for _ in range(2):
        follower._round_due = 0.0
        follower.sync_due()
    with database.read() as connection:
        assert services.map_by_host(connection, ["cn1"])["cn1"].forced_down
    about = [record for record in caplog.records if "API database" in record.getMessage()]
    assert len(about) == 1
    with pytest.raises(Unavailable):
        follower.sync_all()


def test_cell_without_a_mapping_is_deleted_with_its_hosts(make_follower, cloud, database):
    follower = make_follower(cloud)
    follower.sync_all()
    cloud.api.remove("host_mappings", host="cn2")
    cloud.api.remove("cell_mappings", name="two")
    follower.sync_all()
    with database.read() as connection:
        assert [node.host for node in compute_nodes.search(connection)] == ["cn1"]
        assert [service.host for service in services.search(connection)] == ["cn1"]
    assert read_cells(database).keys() == {"one"}


def test_disabled_cell_is_synced_and_reported(follower, nova, database, read_compute_nodes):
    nova.add_host("cn1")
    nova.api.change("cell_mappings", {"name": "one"}, disabled=True)
    follower.sync_all()
    assert read_cells(database)["one"].disabled
    assert read_compute_nodes().keys() == {"cn1"}


#: Times of a row with and without a fraction of a second.
TIME_OF_WHOLE_SECOND, TIME_WITH_FRACTION = "2026-01-01 12:00:00.000000", "2026-01-01T12:00:00.5"


def test_new_or_changed_row_of_nova_is_read():
    marks = RowVersions()
    rows = {"a": (TIME_WITH_FRACTION, 1)}
    assert marks.to_read(rows) == ("a",)
    marks.record_rows(rows, rows, NOW)
    assert marks.to_read(rows) == ()
    assert marks.to_read({"a": (TIME_WITH_FRACTION, 2)}) == ("a",)


@pytest.mark.parametrize("moment", [TIME_OF_WHOLE_SECOND, None])
def test_row_of_nova_changed_in_the_current_second_is_read_again(moment):
    marks, rows = RowVersions(), {"a": (moment, 1)}
    marks.record_rows(rows, rows, NOW)
    assert marks.to_read(rows) == ("a",)
    assert marks.to_read(rows, is_round=False) == ()
    marks.record_rows(rows, rows, NOW + timedelta(seconds=5))
    assert marks.to_read(rows) == ()


def test_versions_of_deleted_rows_of_nova_are_dropped():
    marks, rows = RowVersions(), {"a": (TIME_WITH_FRACTION,), "b": (TIME_WITH_FRACTION,)}
    marks.record_rows(rows, rows, NOW)
    marks.keep(["a"])
    assert marks.to_read(rows) == ("b",)
