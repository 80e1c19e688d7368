# SPDX-License-Identifier: Apache-2.0
"""A cell whose database is away stays as it was, the others go on, and operators are told once."""

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
def two(tmp_path):
    cloud = sqlite_nova(tmp_path, "one", "two")
    cloud.add_host("cn1", "one")
    cloud.add_host("cn2", "two")
    yield cloud
    cloud.close()


def take_away(cloud, cell):
    database = cloud.cells[cell]
    for name in ("services", "compute_nodes", "instances"):
        with database.engine.begin() as connection:
            connection.exec_driver_sql(f"ALTER TABLE {name} RENAME TO away_{name}")


def bring_back(cloud, cell):
    for name in ("services", "compute_nodes", "instances"):
        with cloud.cells[cell].engine.begin() as connection:
            connection.exec_driver_sql(f"ALTER TABLE away_{name} RENAME TO {name}")


def cell_states(database):
    with database.read() as connection:
        return {one.name: one for one in cells.all_cells(connection)}


def test_a_cell_that_is_away_keeps_its_records_and_the_others_go_on(
    make_follower, two, database, monkeypatch
):
    monkeypatch.setattr(followed, "PAUSE", 0.0)
    follower = make_follower(two)
    kept = two.add_instance("cn2", "two")
    follower.full()
    take_away(two, "two")
    new = two.add_instance("cn1", "one")
    findings = follower.full()
    follower.round()
    with database.read() as connection:
        assert {one.uuid for one in instances.search(connection)} == {kept, new}
        assert services.by_hosts(connection, ["cn2"])
        assert len(compute_nodes.search(connection)) == 2
    state = cell_states(database)["two"]
    assert findings.away == ("cell two",)
    assert state.is_away
    assert "no such table" in state.failure
    assert not cell_states(database)["one"].is_away


def test_a_cell_that_is_back_is_read_again(make_follower, two, database, monkeypatch):
    monkeypatch.setattr(followed, "PAUSE", 0.0)
    follower = make_follower(two)
    follower.full()
    take_away(two, "two")
    follower.refresh()
    assert cell_states(database)["two"].is_away
    bring_back(two, "two")
    two.cells["two"].change("services", {"host": "cn2"}, disabled=True)
    follower.round()
    with database.read() as connection:
        assert services.by_hosts(connection, ["cn2"])["cn2"].disabled
    state = cell_states(database)["two"]
    assert (state.away_since, state.failure) == (None, None)


def test_that_a_cell_went_and_came_back_is_logged_once(make_follower, two, caplog, monkeypatch):
    monkeypatch.setattr(followed, "PAUSE", 0.0)
    follower = make_follower(two)
    follower.full()
    caplog.set_level(logging.INFO, "placement_sched.nova")
    take_away(two, "two")
    for _ in range(3):
        follower.round()
    bring_back(two, "two")
    follower.round()
    follower.round()
    about = [one.getMessage() for one in caplog.records if "cell two" in one.getMessage()]
    assert ["cannot be read" in one for one in about] == [True, False]


def test_before_a_request_a_cell_that_is_away_is_not_asked_again(make_follower, two, database):
    follower = make_follower(two)
    follower.full()
    take_away(two, "two")
    follower.refresh()
    bring_back(two, "two")
    follower.refresh()
    assert cell_states(database)["two"].is_away


def test_before_a_request_a_cell_that_failed_at_once_is_asked_again_after_its_pause(
    make_follower, two, database, monkeypatch
):
    monkeypatch.setattr(followed, "PAUSE", 0.0)
    follower = make_follower(two)
    follower.full()
    take_away(two, "two")
    follower.refresh()
    assert cell_states(database)["two"].is_away
    bring_back(two, "two")
    follower.refresh()
    assert not cell_states(database)["two"].is_away


def test_before_a_request_a_cell_that_lets_it_wait_is_not_asked_again(
    make_follower, two, database, monkeypatch
):
    monkeypatch.setattr(followed, "PAUSE", 0.0)
    monkeypatch.setattr(followed, "_AT_ONCE", 0.0)
    follower = make_follower(two)
    follower.full()
    take_away(two, "two")
    follower.refresh()
    bring_back(two, "two")
    follower.refresh()
    assert cell_states(database)["two"].is_away
    follower.round()
    assert not cell_states(database)["two"].is_away


@pytest.fixture
def later(monkeypatch):
    passed = [0.0]
    start = monotonic()
    for module in (followed, sync_follower):
        monkeypatch.setattr(module, "monotonic", lambda: start + passed[0])

    def wait(seconds):
        passed[0] += seconds

    return wait


def test_the_background_work_asks_a_cell_that_is_away_again_before_the_next_round(
    make_follower, two, database, later
):
    follower = make_follower(two, **{"scheduler.nova_sync_interval": 3600})
    follower.sync_due()
    take_away(two, "two")
    follower.refresh()
    bring_back(two, "two")
    later(follower.sync_due() - 0.1)
    follower.sync_due()
    assert cell_states(database)["two"].is_away
    later(0.1)
    follower.sync_due()
    assert not cell_states(database)["two"].is_away


def test_a_cell_that_stays_away_is_asked_less_and_less_often(make_follower, two, later):
    follower = make_follower(two, **{"scheduler.nova_sync_interval": 3600})
    follower.sync_due()
    take_away(two, "two")
    follower.refresh()
    pauses = []
    for _ in range(5):
        pauses.append(follower.sync_due())
        later(pauses[-1])
    assert pauses == pytest.approx([1, 2, 4, 5, 5])


def test_a_cell_that_another_process_found_to_be_back_is_asked_again(
    make_follower, two, database, monkeypatch
):
    first, second = make_follower(two), make_follower(two)
    first.full()
    take_away(two, "two")
    first.refresh()
    bring_back(two, "two")
    second.full()
    two.cells["two"].change("services", {"host": "cn2"}, forced_down=True)
    first.refresh()
    with database.read() as connection:
        assert services.by_hosts(connection, ["cn2"])["cn2"].forced_down


def test_a_template_that_cannot_be_filled_in_makes_its_cell_away(make_follower, nova, database):
    nova.api.change("cell_mappings", {"name": "one"}, database_connection="{scheme}://{nobody}/x")
    findings = make_follower(nova, **{"database.connection": "mysql://u@h/nova"}).full()
    assert findings.away == ("cell one",)
    assert "'nobody'" in cell_states(database)["one"].failure


def test_without_the_api_database_hosts_that_are_known_stay_up(
    make_follower, two, database, caplog
):
    follower = make_follower(two)
    follower.full()
    with two.api.engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE cell_mappings RENAME TO away")
    two.cells["one"].change("services", {"host": "cn1"}, forced_down=True)
    follower._full_due += 3600
    for _ in range(2):
        follower._round_due = 0.0
        follower.sync_due()
    with database.read() as connection:
        assert services.by_hosts(connection, ["cn1"])["cn1"].forced_down
    about = [one for one in caplog.records if "API database" in one.getMessage()]
    assert len(about) == 1
    with pytest.raises(Unavailable):
        follower.full()


def test_a_cell_that_nova_no_longer_maps_is_forgotten_with_its_hosts(make_follower, two, database):
    follower = make_follower(two)
    follower.full()
    two.api.remove("host_mappings", host="cn2")
    two.api.remove("cell_mappings", name="two")
    follower.full()
    with database.read() as connection:
        assert [one.host for one in compute_nodes.search(connection)] == ["cn1"]
        assert [one.host for one in services.search(connection)] == ["cn1"]
    assert cell_states(database).keys() == {"one"}


def test_a_disabled_cell_is_read_and_says_so(make_follower, tmp_path: Path, database):
    cloud = sqlite_nova(tmp_path, "one")
    cloud.add_host("cn1")
    cloud.api.change("cell_mappings", {"name": "one"}, disabled=True)
    make_follower(cloud).full()
    cloud.close()
    assert cell_states(database)["one"].disabled
    with database.read() as connection:
        assert len(compute_nodes.search(connection)) == 1
