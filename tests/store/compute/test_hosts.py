# SPDX-License-Identifier: Apache-2.0
"""The query whether all enabled nodes have a trait."""

import pytest

from placement_sched.store.compute import hosts
from tests.store.compute.provider_traits import (
    OWNER_TRAIT,
    add_trait,
    create_root_provider,
    delete_root_provider,
)
from tests.support.recorded_reports import disable_service, record_report
from tests.support.reports import build_report, node_uuid
from tests.support.statements import run_query

pytestmark = pytest.mark.all_databases


def count_nodes_lacking_trait(database, trait=OWNER_TRAIT):
    return run_query(database, hosts.count_nodes_lacking_trait, trait)


@pytest.fixture
def database_with_two_nodes(database, settings):
    """A database with two enabled nodes. Only the first has the trait."""
    record_report(database, settings, build_report(1), build_report(2))
    add_trait(database, node_uuid(1))
    return database


def test_trait_of_every_enabled_node_is_a_trait_of_all_nodes(database_with_two_nodes):
    assert count_nodes_lacking_trait(database_with_two_nodes) == (1, 2)
    assert count_nodes_lacking_trait(database_with_two_nodes, "CUSTOM_UNKNOWN") is None
    delete_root_provider(database_with_two_nodes, node_uuid(2))
    assert count_nodes_lacking_trait(database_with_two_nodes) == (1, 2)
    create_root_provider(database_with_two_nodes, node_uuid(2))
    add_trait(database_with_two_nodes, node_uuid(2))
    assert count_nodes_lacking_trait(database_with_two_nodes) == (0, 0)


def test_disabled_nodes_may_lack_a_trait_of_all_nodes(database_with_two_nodes):
    database_with_two_nodes.write(lambda connection: disable_service(connection, "cn2", "fan"))
    assert count_nodes_lacking_trait(database_with_two_nodes) == (0, 0)
