# SPDX-License-Identifier: Apache-2.0
"""The root provider of a compute node joins its host's aggregates, whoever creates it, and when."""

import pytest

from placement_sched.operations import reports
from placement_sched.store.placement import resource_providers
from tests.operations.test_reports import aggregates_of, an_aggregate, provider, report
from tests.support.concurrency import run_concurrently
from tests.support.reports import NOW, build_report, node_uuid
from tests.support.versions import LATEST_HEADERS

PROVIDERS = "/placement/resource_providers"
#: As often a node and its provider are created at the same moment.
ROUNDS = 12


@pytest.fixture
def told(database, settings):
    """A function that records reports of hosts whose nova-compute keeps the inventories itself."""

    def tell(*documents):
        return report(database, settings, *(one | {"inventories": False} for one in documents))

    return tell


def create(database, number, **fields):
    asked = {"uuid": node_uuid(number), "name": f"node{number}", "parent_uuid": None} | fields
    return database.write(lambda connection: reports.create(connection, now=NOW, **asked))


def test_provider_of_a_reported_node_joins_the_aggregates_of_its_host(app, told):
    database = app.app.services.database
    told(build_report(1), build_report(2))
    first, second = an_aggregate(database, 71, "cn1"), an_aggregate(database, 72, "cn1")
    body = {"uuid": node_uuid(1), "name": "cn1"}
    made = app.post_json(PROVIDERS, body, headers=LATEST_HEADERS).json
    answer = app.get(f"{PROVIDERS}/{node_uuid(1)}/aggregates", headers=LATEST_HEADERS).json
    assert set(answer["aggregates"]) == {first, second}
    # Who created it may go on with the generation that it was answered.
    assert made["generation"] == answer["resource_provider_generation"]
    create(database, 2)
    assert aggregates_of(database, 2) == set()


def test_inventories_that_are_reported_later_change_no_aggregates(database, settings, told):
    told(build_report(1))
    aggregate = an_aggregate(database, 71, "cn1")
    create(database, 1, name="cn1")
    report(database, settings, build_report(1))
    assert aggregates_of(database, 1) == {aggregate}


def test_child_provider_joins_nothing(database, told):
    told(build_report(1))
    an_aggregate(database, 71, "cn1")
    create(database, 2)
    create(database, 1, parent_uuid=node_uuid(2))
    assert aggregates_of(database, 1) == set()


def test_provider_that_no_node_has_stays_as_it_was_created(database):
    made = create(database, 1)
    assert (made.generation, made.parent_uuid) == (0, None)
    with database.read() as connection:
        assert resource_providers.by_uuid(connection, node_uuid(1)) == made


@pytest.mark.all_databases
def test_provider_created_while_its_node_is_reported_joins_the_aggregates(database, told):
    told(build_report(50, host="cn1"))
    aggregate = an_aggregate(database, 71, "cn1")
    for number in range(1, ROUNDS):
        run_concurrently(
            lambda number=number: told(build_report(number, host="cn1")),
            lambda number=number: create(database, number),
        )
        assert aggregates_of(database, number) == {aggregate}


@pytest.mark.all_databases
def test_provider_created_while_its_host_joins_an_aggregate_is_in_it(database, told):
    for number in range(1, ROUNDS):
        told(build_report(number))
        run_concurrently(
            lambda number=number: an_aggregate(database, 70 + number, f"cn{number}"),
            lambda number=number: create(database, number),
        )
        assert aggregates_of(database, number) == {node_uuid(70 + number)}
    assert provider(database, 1).name == "node1"
