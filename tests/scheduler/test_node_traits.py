# SPDX-License-Identifier: Apache-2.0
"""Detection of a trait on the providers of all enabled nodes."""

import pytest

from placement_sched.operations import reports
from placement_sched.store.compute import hosts
from tests.operations.test_reports import record_report as record
from tests.support.clouds import uuid_of
from tests.support.provider_traits import (
    TRAIT,
    add_trait,
    create_root_provider,
    delete_root_provider,
    remove_trait,
    swap_trait,
)
from tests.support.reports import build_report, node_uuid
from tests.support.service_changes import disable_service, enable_service
from tests.support.statements import record_statements

pytestmark = pytest.mark.all_databases


def all_nodes_have_trait(database):
    with database.read() as connection:
        return hosts.all_nodes_have(connection, TRAIT)


def test_change_by_placement_is_seen_at_once(database, settings):
    record(database, settings, build_report(1), build_report(2))
    first, second, stranger = node_uuid(1), node_uuid(2), uuid_of("stranger")
    steps = [
        (lambda: create_root_provider(database, stranger), False),
        (lambda: add_trait(database, first), False),
        (lambda: add_trait(database, second), True),
        (lambda: swap_trait(database, second, stranger), False),
        (lambda: swap_trait(database, stranger, second), True),
        (lambda: add_trait(database, stranger), True),
        (lambda: delete_root_provider(database, stranger), True),
        (lambda: delete_root_provider(database, first), False),
        (lambda: create_root_provider(database, first), False),
        (lambda: add_trait(database, first), True),
        (lambda: remove_trait(database, second), False),
        (lambda: database.write(lambda connection: disable(connection, "cn2", "fan")), True),
        (lambda: database.write(lambda connection: enable(connection, "cn2")), False),
        (lambda: database.write(lambda connection: reports.remove_node(connection, second)), True),
        (lambda: remove_trait(database, first), False),
    ]
    for index, (change, expected) in enumerate(steps):
        change()
        assert all_nodes_have_trait(database) is expected, index


def test_answer_takes_one_statement(database, settings):
    record(database, settings, build_report(1))
    add_trait(database, node_uuid(1))
    with record_statements(database) as statements:
        assert all_nodes_have_trait(database)
    assert len(statements) == 1
