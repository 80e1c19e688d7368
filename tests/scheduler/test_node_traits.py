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
from tests.exploring import Dice
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
from tests.support.scheduling import report, spec
from tests.support.service_changes import disable, enable
from tests.support.statements import record_statements
from tests.support.versions import LATEST_HEADERS

pytestmark = pytest.mark.all_databases

COMPUTE = {"OpenStack-API-Version": "compute 2.96"}


def all_nodes_have_trait(database):
    with database.read() as connection:
        return hosts.all_nodes_have(connection, TRAIT)


class SchedulerProcess:
    """An application on a database with other writers."""

    def __init__(self, app):
        self.app = app

    def requires_owner_trait(self):
        """Return whether the scheduler requires the trait of nova's own providers."""
        answer = self.app.post_json("/scheduler/v1/explain", {"request_spec": spec()}).json
        applied = {
            request_filter["name"]: request_filter["applied"]
            for request_filter in answer["funnel"]["request_filters"]
        }
        return applied["owner_nova_filter"]

    def report(self, *names):
        self.app.post_json("/scheduler/v1/compute_nodes", [report(name) for name in names])

    def delete_node(self, name):
        self.app.delete(f"/scheduler/v1/compute_nodes/{uuid_of(name)}")

    def set_traits(self, name, *traits):
        """Set the traits of the provider of a node, except that of disabled hosts."""
        url = f"/placement/resource_providers/{uuid_of(name)}/traits"
        result = self.app.get(url, headers=LATEST_HEADERS).json
        stored = {trait for trait in result["traits"] if trait != TRAIT}
        self.app.put_json(
            url, {**result, "traits": sorted(stored | {*traits})}, headers=LATEST_HEADERS
        )

    def delete_provider(self, name):
        self.app.delete(f"/placement/resource_providers/{uuid_of(name)}", headers=LATEST_HEADERS)

    def service(self, name):
        url = f"/compute/v2.1/os-services?host={name}"
        return f"/compute/v2.1/os-services/{self._first(url)['id']}"

    def _first(self, url):
        return self.app.get(url, headers=COMPUTE).json["services"][0]

    def set_status(self, name, status):
        self.app.put_json(self.service(name), {"status": status}, headers=COMPUTE)

    def delete_service(self, name):
        self.app.delete(self.service(name), headers=COMPUTE)


def test_both_processes_see_a_change_at_once(settings, make_app):
    processes = [SchedulerProcess(make_app(settings)) for _ in range(2)]
    steps = [
        (lambda process: process.report("cn1", "cn2"), False),
        (lambda process: process.set_traits("cn1", TRAIT), False),
        (lambda process: process.set_traits("cn2", TRAIT), True),
        (lambda process: process.report("cn2", "cn3"), False),
        (lambda process: process.set_status("cn3", "disabled"), True),
        (lambda process: process.set_status("cn3", "enabled"), False),
        (lambda process: process.set_traits("cn3", TRAIT), True),
        (lambda process: process.set_traits("cn3"), False),
        (lambda process: process.delete_node("cn3"), True),
        (lambda process: process.delete_provider("cn2"), False),
        (lambda process: process.report("cn2"), False),
        (lambda process: process.set_traits("cn2", TRAIT), True),
        (lambda process: process.set_traits("cn1"), False),
        (lambda process: process.delete_service("cn1"), True),
    ]
    for index, (change, expected) in enumerate(steps):
        change(processes[index % 2])
        assert [process.requires_owner_trait() for process in processes] == [expected] * 2, index


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
        enable(connection, host)
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
        lambda: database.write(lambda connection: disable(connection, host, "fan")),
        lambda: database.write(lambda connection: enable(connection, host)),
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
    seen = []
    for step in range(200):
        write_randomly(random.choice(databases), random, settings)
        answer = [all_nodes_have_trait(database_) for database_ in databases]
        seen.append(compute_answer(database))
        assert answer == [seen[-1]] * 2, step
    assert 30 < sum(seen) < 170


def test_answer_takes_one_statement(database, settings):
    record(database, settings, build_report(1))
    add_trait(database, node_uuid(1))
    with record_statements(database) as statements:
        assert all_nodes_have_trait(database)
    assert len(statements) == 1
