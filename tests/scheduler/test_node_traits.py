# SPDX-License-Identifier: Apache-2.0
"""Detection of a trait on the providers of all enabled nodes."""

from contextlib import suppress

import pytest
from sqlalchemy import select

from placement_sched import errors
from placement_sched.db.tables import compute_nodes, services
from placement_sched.operations import reports
from placement_sched.operations import services as operations
from placement_sched.store.compute import hosts
from placement_sched.store.compute import services as service_store
from tests.exploring import Dice, draws
from tests.operations.test_reports import record_report as record
from tests.support.clouds import uuid_of
from tests.support.provider_traits import (
    TRAIT,
    add_trait,
    create_root_provider,
    delete_root_provider,
    read_providers_with_trait,
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
        (lambda: remove_trait(database, first, second), False),
    ]
    for index, (change, expected) in enumerate(steps):
        change()
        assert all_nodes_have_trait(database) is expected, index


def compute_answer(database):
    """Return the answer from all rows."""
    with database.read() as connection:
        enabled = {
            host
            for host, disabled in connection.execute(select(services.c.host, services.c.disabled))
            if not disabled
        }
        uuids = {
            uuid
            for uuid, host in connection.execute(select(compute_nodes.c.uuid, compute_nodes.c.host))
            if host in enabled
        }
    return bool(uuids) and uuids <= read_providers_with_trait(database)


def write_randomly(database, random, settings):
    """Do a random write to four nodes on four hosts. Rejected writes change nothing."""
    number, host = random.randint(1, 4), f"cn{random.randint(1, 4)}"
    uuid, uuids = node_uuid(number), [node_uuid(index) for index in range(1, 5)]

    def report_node():
        reported_host = random.choice([f"cn{number}", f"cn{number}", host])
        node = build_report(number, host=reported_host, vcpus=8 + random.randint(1, 4))
        record(database, settings, node)

    def delete_service(connection):
        enable_service(connection, host)
        (service,) = service_store.by_hosts(connection, [host]).values()
        operations.delete(connection, service.id)

    def move_trait():
        with_trait = read_providers_with_trait(database)
        without_trait = set(uuids) - with_trait
        if with_trait and without_trait:
            old, new = random.choice(sorted(with_trait)), random.choice(sorted(without_trait))
            make_if_missing(database, new)
            swap_trait(database, old, new)

    writes = (
        report_node,
        lambda: database.write(lambda connection: reports.remove_node(connection, uuid)),
        lambda: database.write(lambda connection: disable_service(connection, host, "fan")),
        lambda: database.write(lambda connection: enable_service(connection, host)),
        lambda: database.write(delete_service),
        lambda: add_trait(database, uuid),
        *(lambda: add_trait(database, *uuids) for _ in range(2)),
        lambda: remove_trait(database, uuid),
        move_trait,
        lambda: make_if_missing(database, uuid),
        lambda: delete_root_provider(database, uuid),
    )
    with suppress(errors.Error):
        random.choice(writes)()


def make_if_missing(database, uuid):
    add_trait(database, uuid)
    if uuid in read_providers_with_trait(database):
        remove_trait(database, uuid)
    else:
        create_root_provider(database, uuid)


@pytest.mark.slow
@pytest.mark.property
def test_answer_equals_that_of_a_naive_query_after_any_writes(
    database, other_process_database, settings
):
    random = Dice.numbered(34)
    databases = (database, other_process_database)
    seen, steps = [], draws(200)
    for step in range(steps):
        write_randomly(random.choice(databases), random, settings)
        answer = [all_nodes_have_trait(database_) for database_ in databases]
        seen.append(compute_answer(database))
        assert answer == [seen[-1]] * 2, step
    assert 0 < sum(seen) < steps


def test_answer_takes_one_statement(database, settings):
    record(database, settings, build_report(1))
    add_trait(database, node_uuid(1))
    with record_statements(database) as statements:
        assert all_nodes_have_trait(database)
    assert len(statements) == 1
