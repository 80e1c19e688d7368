# SPDX-License-Identifier: Apache-2.0
"""Root providers of compute nodes join the aggregates of their hosts."""

import pytest

from placement_sched.operations import reports
from placement_sched.store.placement import resource_providers
from tests.operations.test_reports import (
    aggregates_of,
    create_aggregate,
    read_provider,
    record_report,
)
from tests.support.concurrency import run_concurrently
from tests.support.reports import NOW, build_report, node_uuid
from tests.support.versions import LATEST_HEADERS

PROVIDERS = "/placement/resource_providers"
#: Number of concurrent creations of a node and its provider.
ROUNDS = 12


@pytest.fixture
def record_reports(database, settings):
    """Return a function that records reports without inventories."""

    def send_report(*documents):
        return record_report(
            database, settings, *(document | {"inventories": False} for document in documents)
        )

    return send_report


def create_provider(database, number, **fields):
    values = {"uuid": node_uuid(number), "name": f"node{number}", "parent_uuid": None} | fields
    return database.write(lambda connection: reports.create(connection, now=NOW, **values))


def test_provider_of_a_reported_node_joins_the_aggregates_of_its_host(app, record_reports):
    database = app.app.services.database
    record_reports(build_report(1), build_report(2))
    first, second = create_aggregate(database, 71, "cn1"), create_aggregate(database, 72, "cn1")
    body = {"uuid": node_uuid(1), "name": "cn1"}
    made = app.post_json(PROVIDERS, body, headers=LATEST_HEADERS).json
    answer = app.get(f"{PROVIDERS}/{node_uuid(1)}/aggregates", headers=LATEST_HEADERS).json
    assert set(answer["aggregates"]) == {first, second}
    # The client can use the generation of the response.
    assert made["generation"] == answer["resource_provider_generation"]
    create_provider(database, 2)
    assert aggregates_of(database, 2) == set()


def test_later_inventories_change_no_aggregates(database, settings, record_reports):
    record_reports(build_report(1))
    aggregate = create_aggregate(database, 71, "cn1")
    create_provider(database, 1, name="cn1")
    record_report(database, settings, build_report(1))
    assert aggregates_of(database, 1) == {aggregate}


def test_child_provider_joins_no_aggregate(database, record_reports):
    record_reports(build_report(1))
    create_aggregate(database, 71, "cn1")
    create_provider(database, 2)
    create_provider(database, 1, parent_uuid=node_uuid(2))
    assert aggregates_of(database, 1) == set()


def test_provider_without_node_is_unchanged(database):
    provider = create_provider(database, 1)
    assert (provider.generation, provider.parent_uuid) == (0, None)
    with database.read() as connection:
        assert resource_providers.by_uuid(connection, node_uuid(1)) == provider


@pytest.mark.all_databases
def test_provider_created_while_its_node_is_reported_joins_the_aggregates(database, record_reports):
    record_reports(build_report(50, host="cn1"))
    aggregate = create_aggregate(database, 71, "cn1")
    for number in range(1, ROUNDS):
        run_concurrently(
            lambda number=number: record_reports(build_report(number, host="cn1")),
            lambda number=number: create_provider(database, number),
        )
        assert aggregates_of(database, number) == {aggregate}


@pytest.mark.all_databases
def test_provider_created_while_its_host_joins_an_aggregate_is_in_it(database, record_reports):
    for number in range(1, ROUNDS):
        record_reports(build_report(number))
        run_concurrently(
            lambda number=number: create_aggregate(database, 70 + number, f"cn{number}"),
            lambda number=number: create_provider(database, number),
        )
        assert aggregates_of(database, number) == {node_uuid(70 + number)}
    assert read_provider(database, 1).name == "node1"
