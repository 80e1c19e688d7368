# SPDX-License-Identifier: Apache-2.0
"""Whether all enabled nodes have a trait."""

import pytest

from placement_sched.store.compute import hosts
from tests.operations.test_reports import report
from tests.support.provider_traits import TRAIT, make, put_on, remove
from tests.support.reports import a_report, node_uuid
from tests.support.service_changes import disable

pytestmark = pytest.mark.all_databases


def all_have(database, trait=TRAIT):
    with database.read() as connection:
        return hosts.all_nodes_have(connection, trait)


@pytest.fixture
def cloud(database, settings):
    """A database with two enabled nodes, of which the first has the trait."""
    report(database, settings, a_report(1), a_report(2))
    put_on(database, node_uuid(1))
    return database


def test_all_have_it_once_the_last_has(cloud):
    assert not all_have(cloud)
    put_on(cloud, node_uuid(2))
    assert all_have(cloud)


def test_without_enabled_nodes_none_has_it(database, settings):
    make(database, node_uuid(1))
    put_on(database, node_uuid(1))
    assert not all_have(database)
    report(database, settings, a_report(2))
    put_on(database, node_uuid(2))
    database.write(lambda connection: disable(connection, "cn2", "fan"))
    assert not all_have(database)


def test_disabled_nodes_need_it_not(cloud):
    cloud.write(lambda connection: disable(connection, "cn2", "fan"))
    assert all_have(cloud)


def test_node_without_provider_lacks_it(cloud):
    remove(cloud, node_uuid(2))
    assert not all_have(cloud)


def test_unknown_trait_is_nobodys(cloud):
    assert not all_have(cloud, "CUSTOM_UNKNOWN")
