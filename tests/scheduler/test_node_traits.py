# SPDX-License-Identifier: Apache-2.0
"""Whether the providers of all enabled nodes have a trait, by whomever it changes."""

import pytest
from sqlalchemy import select

from placement_sched import errors
from placement_sched.db.tables import compute_nodes, services
from placement_sched.db.transaction import Database
from placement_sched.operations import reports
from placement_sched.operations import services as operations
from placement_sched.store.compute import hosts
from placement_sched.store.compute import services as service_store
from tests.exploring import Dice
from tests.operations.test_reports import report as record
from tests.support.clouds import uuid_of
from tests.support.provider_traits import TRAIT, carriers, make, put_on, remove, swap, take_off
from tests.support.reports import a_report, node_uuid
from tests.support.scheduling import report, spec
from tests.support.service_changes import disable, enable
from tests.support.statements import counted
from tests.support.versions import LATEST_HEADERS

pytestmark = pytest.mark.all_databases

COMPUTE = {"OpenStack-API-Version": "compute 2.96"}


@pytest.fixture
def other_process(settings):
    """Another process's way to the database."""
    database = Database(settings)
    yield database
    database.dispose()


def all_have(database):
    with database.read() as connection:
        return hosts.all_nodes_have(connection, TRAIT)


class Process:
    """An application on a database that others change as well."""

    def __init__(self, app):
        self.app = app

    def asks_for_owner(self):
        """Return whether its scheduler asks for nova's own providers."""
        told = self.app.post_json("/scheduler/v1/explain", {"request_spec": spec()}).json
        applied = {one["name"]: one["applied"] for one in told["funnel"]["request_filters"]}
        return applied["owner_nova_filter"]

    def report(self, *names):
        self.app.post_json("/scheduler/v1/compute_nodes", [report(name) for name in names])

    def delete_node(self, name):
        self.app.delete(f"/scheduler/v1/compute_nodes/{uuid_of(name)}")

    def carry(self, name, *traits):
        """Make these, beside the mark of disabled hosts, the traits of a node's provider."""
        url = f"/placement/resource_providers/{uuid_of(name)}/traits"
        found = self.app.get(url, headers=LATEST_HEADERS).json
        kept = {trait for trait in found["traits"] if trait != TRAIT}
        self.app.put_json(
            url, {**found, "traits": sorted(kept | {*traits})}, headers=LATEST_HEADERS
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


def test_change_through_one_process_is_heeded_by_the_other_at_once(settings, make_app):
    processes = [Process(make_app(settings)) for _ in range(2)]
    story = [
        (lambda one: one.report("cn1", "cn2"), False),
        (lambda one: one.carry("cn1", TRAIT), False),
        (lambda one: one.carry("cn2", TRAIT), True),
        (lambda one: one.report("cn2", "cn3"), False),
        (lambda one: one.set_status("cn3", "disabled"), True),
        (lambda one: one.set_status("cn3", "enabled"), False),
        (lambda one: one.carry("cn3", TRAIT), True),
        (lambda one: one.carry("cn3"), False),
        (lambda one: one.delete_node("cn3"), True),
        (lambda one: one.delete_provider("cn2"), False),
        (lambda one: one.report("cn2"), False),
        (lambda one: one.carry("cn2", TRAIT), True),
        (lambda one: one.carry("cn1"), False),
        (lambda one: one.delete_service("cn1"), True),
    ]
    for index, (change, expected) in enumerate(story):
        change(processes[index % 2])
        assert [one.asks_for_owner() for one in processes] == [expected] * 2, index


def test_change_that_placement_makes_beside_us_is_heeded_at_once(database, settings):
    record(database, settings, a_report(1), a_report(2))
    one, two, stranger = node_uuid(1), node_uuid(2), uuid_of("stranger")
    story = [
        (lambda: make(database, stranger), False),
        (lambda: put_on(database, one), False),
        (lambda: put_on(database, two), True),
        (lambda: swap(database, two, stranger), False),
        (lambda: swap(database, stranger, two), True),
        (lambda: put_on(database, stranger), True),
        (lambda: remove(database, stranger), True),
        (lambda: remove(database, one), False),
        (lambda: make(database, one), False),
        (lambda: put_on(database, one), True),
        (lambda: take_off(database, one, two), False),
    ]
    for index, (change, expected) in enumerate(story):
        change()
        assert all_have(database) is expected, index


def naive(database):
    """Return the answer, looking at every row."""
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
    return bool(uuids) and uuids <= carriers(database)


class Chance:
    """Writes drawn by lot to a cloud of up to four nodes on up to four hosts."""

    def __init__(self, random, settings):
        self.random = random
        self.settings = settings

    def write(self, database):
        """Do something; what cannot be done there changes nothing."""
        ways = (
            *(self.report, self.remove_node, self.disable, self.enable, self.delete_service),
            *(self.put_on, self.put_on_all, self.put_on_all, self.take_off, self.swap),
            *(self.make_provider, self.remove_provider),
        )
        try:
            self.random.choice(ways)(database)
        except errors.Error:
            return

    def number(self):
        return self.random.randint(1, 4)

    def uuid(self):
        return node_uuid(self.number())

    def host(self):
        return f"cn{self.number()}"

    def report(self, database):
        number = self.number()
        host = self.random.choice([f"cn{number}", f"cn{number}", self.host()])
        record(database, self.settings, a_report(number, host=host, vcpus=8 + self.number()))

    def remove_node(self, database):
        uuid = self.uuid()
        database.write(lambda connection: reports.remove_node(connection, uuid))

    def disable(self, database):
        host = self.host()
        database.write(lambda connection: disable(connection, host, "fan"))

    def enable(self, database):
        host = self.host()
        database.write(lambda connection: enable(connection, host))

    def delete_service(self, database):
        def work(connection):
            enable(connection, host)
            (found,) = service_store.by_hosts(connection, [host]).values()
            operations.delete(connection, found.id)

        host = self.host()
        database.write(work)

    def put_on(self, database):
        put_on(database, self.uuid())

    def put_on_all(self, database):
        put_on(database, *map(node_uuid, range(1, 5)))

    def take_off(self, database):
        take_off(database, self.uuid())

    def swap(self, database):
        having = carriers(database)
        lacking = {node_uuid(number) for number in range(1, 5)} - having
        if having and lacking:
            # Of those that lack it some are not there, which no trait can be put on.
            left, joined = self.random.choice(sorted(having)), self.random.choice(sorted(lacking))
            make_if_missing(database, joined)
            swap(database, left, joined)

    def make_provider(self, database):
        make_if_missing(database, self.uuid())

    def remove_provider(self, database):
        remove(database, self.uuid())


def make_if_missing(database, uuid):
    put_on(database, uuid)
    if uuid in carriers(database):
        take_off(database, uuid)
    else:
        make(database, uuid)


@pytest.mark.property
def test_after_any_writes_the_answer_is_that_of_every_row(database, other_process, settings):
    random = Dice.of(34)
    chance = Chance(random, settings)
    ways = (database, other_process)
    seen = []
    for step in range(200):
        chance.write(random.choice(ways))
        told = [all_have(way) for way in ways]
        seen.append(naive(database))
        assert told == [seen[-1]] * 2, step
    assert 30 < sum(seen) < 170


def test_each_use_costs_one_statement(database, settings):
    record(database, settings, a_report(1))
    put_on(database, node_uuid(1))
    with counted(database) as used:
        assert all_have(database)
    assert len(used) == 1
