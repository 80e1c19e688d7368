# SPDX-License-Identifier: Apache-2.0
"""Updates of allocation ratios when the configuration of a server changes."""

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


class ConfiguredCloud:
    """A host under the policy ``everything``, and a server with changing settings."""

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
        """Run the check that precedes a request, and wait for its background thread."""
        self.upkeep()
        for thread in threading.enumerate():
            if thread.name == "policy ratios":
                thread.join(timeout=60)


@pytest.fixture
def configured_cloud(database, database_url, tmp_path):
    return ConfiguredCloud(
        Cloud(database, settings_with_policies(database_url, tmp_path)), database_url, tmp_path
    )


@pytest.fixture
def sqlite_configured_cloud(sqlite_database, sqlite_url, tmp_path):
    return ConfiguredCloud(
        Cloud(sqlite_database, settings_with_policies(sqlite_url, tmp_path)), sqlite_url, tmp_path
    )


def test_inventories_follow_the_configuration(configured_cloud):
    configured_cloud.request()
    assert configured_cloud.cloud.ratios() == EVERYTHING
    configured_cloud.configure("[everything]\ncpu_allocation_ratio = 6.0\n")
    configured_cloud.request()
    assert configured_cloud.cloud.ratios() == (6.0, 1.0, 1.0)
    configured_cloud.configure("")
    configured_cloud.request()
    assert configured_cloud.cloud.ratios() == OWN


def test_host_inserted_in_tables_gets_policy_ratios(sqlite_configured_cloud):
    add_node(sqlite_configured_cloud.cloud.database, "cn2")
    sqlite_configured_cloud.cloud.make(2, "everything", "cn2")
    sqlite_configured_cloud.configure("")
    sqlite_configured_cloud.upkeep()
    with sqlite_configured_cloud.cloud.database.read() as connection:
        nodes = compute_nodes.search(connection)
    assert {(node.host, node.vcpus, node.supported_hv_specs) for node in nodes} == {
        ("cn1", 8, ()),
        ("cn2", 8, ()),
    }


def test_start_applies_ratios_before_the_first_request(sqlite_configured_cloud):
    sqlite_configured_cloud.configure("")
    sqlite_configured_cloud.upkeep()
    assert sqlite_configured_cloud.cloud.ratios() == OWN


def test_unchanged_configuration_is_not_applied_again(sqlite_configured_cloud, monkeypatch):
    sqlite_configured_cloud.request()
    monkeypatch.setattr(aggregates, "apply", None)
    sqlite_configured_cloud.request()


def test_start_without_a_database_is_logged_and_retried(sqlite_configured_cloud, monkeypatch):
    sqlite_configured_cloud.configure("")

    def raise_unavailable(*_):
        raise Unavailable("the database does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(aggregates, "apply", raise_unavailable)
        with pytest.raises(Unavailable):
            sqlite_configured_cloud.upkeep()
    sqlite_configured_cloud.upkeep()
    assert sqlite_configured_cloud.cloud.ratios() == OWN


def test_failed_change_is_retried_with_the_next_request(
    sqlite_configured_cloud, monkeypatch, caplog
):
    sqlite_configured_cloud.request()
    sqlite_configured_cloud.configure("")

    def raise_unavailable(*_):
        raise Unavailable("the database does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(aggregates, "apply", raise_unavailable)
        sqlite_configured_cloud.request()
    assert "which will be retried: the database does not answer" in caplog.text
    assert sqlite_configured_cloud.cloud.ratios() == EVERYTHING
    sqlite_configured_cloud.request()
    assert sqlite_configured_cloud.cloud.ratios() == OWN


def test_ratios_lost_by_a_failover_are_rewritten(sqlite_configured_cloud, monkeypatch):
    history = ["first"]
    monkeypatch.setattr(Database, "history", property(lambda _database: history[0]))
    monkeypatch.setattr(aggregates, "epoch_of", lambda _connection: history[0])
    sqlite_configured_cloud.request()
    assert sqlite_configured_cloud.cloud.ratios() == EVERYTHING
    lost = update(inventories).values(allocation_ratio=3.0)
    sqlite_configured_cloud.cloud.database.write(lambda connection: connection.execute(lost))
    sqlite_configured_cloud.request()
    assert sqlite_configured_cloud.cloud.ratios() == (3.0, 3.0, 3.0)
    history[0] = "second"
    sqlite_configured_cloud.request()
    assert sqlite_configured_cloud.cloud.ratios() == EVERYTHING
