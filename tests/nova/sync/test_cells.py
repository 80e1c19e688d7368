# SPDX-License-Identifier: Apache-2.0
"""A cell with an unavailable database keeps its records while other cells are synced."""

import logging
from pathlib import Path
from time import monotonic

import pytest

from placement_sched.errors import Unavailable
from placement_sched.nova.sync import cells as followed
from placement_sched.nova.sync import follower as sync_follower
from placement_sched.store.compute import cells, compute_nodes, instances, services
from tests.support.nova_clouds import sqlite_nova

pytestmark = pytest.mark.all_databases


@pytest.fixture
def two_cell_cloud(tmp_path):
    cloud = sqlite_nova(tmp_path, "one", "two")
    cloud.add_host("cn1", "one")
    cloud.add_host("cn2", "two")
    yield cloud
    cloud.close()


def make_cell_unavailable(cloud, cell):
    database = cloud.cells[cell]
    for name in ("services", "compute_nodes", "instances"):
        with database.engine.begin() as connection:
            connection.exec_driver_sql(f"ALTER TABLE {name} RENAME TO away_{name}")


def make_cell_available(cloud, cell):
    for name in ("services", "compute_nodes", "instances"):
        with cloud.cells[cell].engine.begin() as connection:
            connection.exec_driver_sql(f"ALTER TABLE away_{name} RENAME TO {name}")


def cell_states(database):
    with database.read() as connection:
        return {cell.name: cell for cell in cells.all_cells(connection)}


def test_unavailable_cell_keeps_its_records_and_other_cells_sync(
    make_follower, two_cell_cloud, database, monkeypatch
):
    monkeypatch.setattr(followed, "PAUSE", 0.0)
    follower = make_follower(two_cell_cloud)
    kept = two_cell_cloud.add_instance("cn2", "two")
    follower.full()
    make_cell_unavailable(two_cell_cloud, "two")
    new = two_cell_cloud.add_instance("cn1", "one")
    findings = follower.full()
    follower.round()
    with database.read() as connection:
        assert {instance.uuid for instance in instances.search(connection)} == {kept, new}
        assert services.by_hosts(connection, ["cn2"])
        assert len(compute_nodes.search(connection)) == 2
    state = cell_states(database)["two"]
    assert findings.away == ("cell two",)
    assert state.is_away
    assert "no such table" in state.failure
    assert not cell_states(database)["one"].is_away


def test_recovered_cell_is_synced_again(make_follower, two_cell_cloud, database, monkeypatch):
    monkeypatch.setattr(followed, "PAUSE", 0.0)
    follower = make_follower(two_cell_cloud)
    follower.full()
    make_cell_unavailable(two_cell_cloud, "two")
    follower.refresh()
    assert cell_states(database)["two"].is_away
    make_cell_available(two_cell_cloud, "two")
    two_cell_cloud.cells["two"].change("services", {"host": "cn2"}, disabled=True)
    follower.round()
    with database.read() as connection:
        assert services.by_hosts(connection, ["cn2"])["cn2"].disabled
    state = cell_states(database)["two"]
    assert (state.away_since, state.failure) == (None, None)


def test_cell_loss_and_recovery_are_logged_once(make_follower, two_cell_cloud, caplog, monkeypatch):
    monkeypatch.setattr(followed, "PAUSE", 0.0)
    follower = make_follower(two_cell_cloud)
    follower.full()
    caplog.set_level(logging.INFO, "placement_sched.nova")
    make_cell_unavailable(two_cell_cloud, "two")
    for _ in range(3):
        follower.round()
    make_cell_available(two_cell_cloud, "two")
    follower.round()
    follower.round()
    about = [record.getMessage() for record in caplog.records if "cell two" in record.getMessage()]
    assert ["cannot be read" in one for one in about] == [True, False]


def test_requests_do_not_query_an_unavailable_cell(make_follower, two_cell_cloud, database):
    follower = make_follower(two_cell_cloud)
    follower.full()
    make_cell_unavailable(two_cell_cloud, "two")
    follower.refresh()
    make_cell_available(two_cell_cloud, "two")
    follower.refresh()
    assert cell_states(database)["two"].is_away


def test_requests_retry_a_fast_failing_cell_after_its_pause(
    make_follower, two_cell_cloud, database, monkeypatch
):
    monkeypatch.setattr(followed, "PAUSE", 0.0)
    follower = make_follower(two_cell_cloud)
    follower.full()
    make_cell_unavailable(two_cell_cloud, "two")
    follower.refresh()
    assert cell_states(database)["two"].is_away
    make_cell_available(two_cell_cloud, "two")
    follower.refresh()
    assert not cell_states(database)["two"].is_away


def test_requests_do_not_retry_a_cell_that_timed_out(
    make_follower, two_cell_cloud, database, monkeypatch
):
    monkeypatch.setattr(followed, "PAUSE", 0.0)
    monkeypatch.setattr(followed, "_AT_ONCE", 0.0)
    follower = make_follower(two_cell_cloud)
    follower.full()
    make_cell_unavailable(two_cell_cloud, "two")
    follower.refresh()
    make_cell_available(two_cell_cloud, "two")
    follower.refresh()
    assert cell_states(database)["two"].is_away
    follower.round()
    assert not cell_states(database)["two"].is_away


@pytest.fixture
def advance_clock(monkeypatch):
    passed = [0.0]
    start = monotonic()
    for module in (followed, sync_follower):
        monkeypatch.setattr(module, "monotonic", lambda: start + passed[0])

    def wait(seconds):
        passed[0] += seconds

    return wait


def test_background_sync_retries_an_unavailable_cell_early(
    make_follower, two_cell_cloud, database, advance_clock
):
    follower = make_follower(two_cell_cloud, **{"scheduler.nova_sync_interval": 3600})
    follower.sync_due()
    make_cell_unavailable(two_cell_cloud, "two")
    follower.refresh()
    make_cell_available(two_cell_cloud, "two")
    advance_clock(follower.sync_due() - 0.1)
    follower.sync_due()
    assert cell_states(database)["two"].is_away
    advance_clock(0.1)
    follower.sync_due()
    assert not cell_states(database)["two"].is_away


def test_retry_interval_of_an_unavailable_cell_grows(make_follower, two_cell_cloud, advance_clock):
    follower = make_follower(two_cell_cloud, **{"scheduler.nova_sync_interval": 3600})
    follower.sync_due()
    make_cell_unavailable(two_cell_cloud, "two")
    follower.refresh()
    pauses = []
    for _ in range(5):
        pauses.append(follower.sync_due())
        advance_clock(pauses[-1])
    assert pauses == pytest.approx([1, 2, 4, 5, 5])


def test_cell_recovery_seen_by_another_process_resumes_sync(
    make_follower, two_cell_cloud, database, monkeypatch
):
    first, second = make_follower(two_cell_cloud), make_follower(two_cell_cloud)
    first.full()
    make_cell_unavailable(two_cell_cloud, "two")
    first.refresh()
    make_cell_available(two_cell_cloud, "two")
    second.full()
    two_cell_cloud.cells["two"].change("services", {"host": "cn2"}, forced_down=True)
    first.refresh()
    with database.read() as connection:
        assert services.by_hosts(connection, ["cn2"])["cn2"].forced_down


def test_invalid_url_template_makes_the_cell_unavailable(make_follower, nova, database):
    nova.api.change("cell_mappings", {"name": "one"}, database_connection="{scheme}://{nobody}/x")
    findings = make_follower(nova, **{"database.connection": "mysql://u@h/nova"}).full()
    assert findings.away == ("cell one",)
    assert "'nobody'" in cell_states(database)["one"].failure


def test_hosts_stay_up_without_the_api_database(make_follower, two_cell_cloud, database, caplog):
    follower = make_follower(two_cell_cloud)
    follower.full()
    with two_cell_cloud.api.engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE cell_mappings RENAME TO away")
    two_cell_cloud.cells["one"].change("services", {"host": "cn1"}, forced_down=True)
    follower._full_due += 3600
    for _ in range(2):
        follower._round_due = 0.0
        follower.sync_due()
    with database.read() as connection:
        assert services.by_hosts(connection, ["cn1"])["cn1"].forced_down
    about = [record for record in caplog.records if "API database" in record.getMessage()]
    assert len(about) == 1
    with pytest.raises(Unavailable):
        follower.full()


def test_removed_cell_mapping_deletes_cell_and_hosts(make_follower, two_cell_cloud, database):
    follower = make_follower(two_cell_cloud)
    follower.full()
    two_cell_cloud.api.remove("host_mappings", host="cn2")
    two_cell_cloud.api.remove("cell_mappings", name="two")
    follower.full()
    with database.read() as connection:
        assert [node.host for node in compute_nodes.search(connection)] == ["cn1"]
        assert [service.host for service in services.search(connection)] == ["cn1"]
    assert cell_states(database).keys() == {"one"}


def test_disabled_cell_is_synced_and_reported(make_follower, tmp_path: Path, database):
    cloud = sqlite_nova(tmp_path, "one")
    cloud.add_host("cn1")
    cloud.api.change("cell_mappings", {"name": "one"}, disabled=True)
    make_follower(cloud).full()
    cloud.close()
    assert cell_states(database)["one"].disabled
    with database.read() as connection:
        assert len(compute_nodes.search(connection)) == 1
