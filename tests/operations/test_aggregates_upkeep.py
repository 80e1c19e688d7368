# SPDX-License-Identifier: Apache-2.0
"""A server keeps inventories at the ratios of policies while its configuration changes."""

import threading

import pytest
from sqlalchemy import update

from placement_sched.db.tables import inventories
from placement_sched.db.transaction import Database
from placement_sched.errors import Unavailable
from placement_sched.operations import aggregates
from placement_sched.operations.aggregates import RatioUpdater
from placement_sched.store.compute import compute_nodes
from tests.operations.test_aggregates_policies import EVERYTHING, OWN, Cloud
from tests.support.hosts import add_node
from tests.support.policies import settings_with_policies
from tests.support.reports import NOW, build_report


class Kept:
    """A host under the policy ``everything``, and a server of which the settings change."""

    def __init__(self, cloud, url, folder):
        self.cloud = cloud
        self._url, self._folder = url, folder
        self.settings = cloud.settings
        self.upkeep = RatioUpdater(cloud.database, lambda: self.settings, lambda: NOW)
        cloud.report(build_report(1))
        cloud.make(1, "everything", "cn1")

    def configure(self, text):
        self.settings = settings_with_policies(self._url, self._folder, text)

    def request(self):
        """Do what is done before a request, and wait for what is done beside it."""
        self.upkeep()
        for thread in threading.enumerate():
            if thread.name == "policy ratios":
                thread.join(timeout=60)


@pytest.fixture
def kept(database, database_url, tmp_path):
    return Kept(
        Cloud(database, settings_with_policies(database_url, tmp_path)), database_url, tmp_path
    )


@pytest.fixture
def small(sqlite_database, sqlite_url, tmp_path):
    """The same on SQLite alone."""
    return Kept(
        Cloud(sqlite_database, settings_with_policies(sqlite_url, tmp_path)), sqlite_url, tmp_path
    )


def test_inventories_follow_the_configuration(kept):
    kept.request()
    assert kept.cloud.ratios() == EVERYTHING
    kept.configure("[everything]\ncpu_allocation_ratio = 6.0\n")
    kept.request()
    assert kept.cloud.ratios() == (6.0, 1.0, 1.0)
    kept.configure("")
    kept.request()
    assert kept.cloud.ratios() == OWN


def test_host_put_straight_into_the_tables_is_read_as_one_that_reported(small):
    add_node(small.cloud.database, "cn2")
    small.cloud.make(2, "everything", "cn2")
    small.configure("")
    small.upkeep()
    with small.cloud.database.read() as connection:
        nodes = compute_nodes.search(connection)
    assert {(node.host, node.vcpus, node.supported_hv_specs) for node in nodes} == {
        ("cn1", 8, ()),
        ("cn2", 8, ()),
    }


def test_start_is_done_before_the_first_request(small):
    small.configure("")
    small.upkeep()
    assert small.cloud.ratios() == OWN


def test_what_is_as_it_was_is_not_looked_at_again(small, monkeypatch):
    small.request()
    monkeypatch.setattr(aggregates, "apply", None)
    small.request()


def test_start_without_a_database_is_told_and_tried_again(small, monkeypatch):
    small.configure("")

    def absent(*_):
        raise Unavailable("the database does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(aggregates, "apply", absent)
        with pytest.raises(Unavailable):
            small.upkeep()
    small.upkeep()
    assert small.cloud.ratios() == OWN


def test_change_that_failed_is_tried_again_with_the_next_request(small, monkeypatch, caplog):
    small.request()
    small.configure("")

    def absent(*_):
        raise Unavailable("the database does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(aggregates, "apply", absent)
        small.request()
    assert "the database does not answer; will be retried" in caplog.text
    assert small.cloud.ratios() == EVERYTHING
    small.request()
    assert small.cloud.ratios() == OWN


def test_ratios_that_a_failover_lost_are_written_again(small, monkeypatch):
    history = ["first"]
    monkeypatch.setattr(Database, "history", property(lambda _database: history[0]))
    monkeypatch.setattr(aggregates, "epoch_of", lambda _connection: history[0])
    small.request()
    assert small.cloud.ratios() == EVERYTHING
    lost = update(inventories).values(allocation_ratio=3.0)
    small.cloud.database.write(lambda connection: connection.execute(lost))
    small.request()
    assert small.cloud.ratios() == (3.0, 3.0, 3.0)
    history[0] = "second"
    small.request()
    assert small.cloud.ratios() == EVERYTHING
