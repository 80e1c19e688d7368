# SPDX-License-Identifier: Apache-2.0
"""The reads that each nova-compute sends every minute take a single SQL statement each."""

from uuid import uuid4

import pytest
from sqlalchemy import update

from placement_sched.db.tables import resource_providers
from tests.support.allocation_bodies import build_body
from tests.support.providers import make_provider
from tests.support.statements import record_statements
from tests.support.versions import LATEST, LATEST_HEADERS

PROVIDERS_PATH = "/placement/resource_providers"
PROVIDER_SUBRESOURCES = ("inventories", "aggregates", "traits", "allocations", "usages")


@pytest.fixture
def database(app):
    return app.app.services.database


@pytest.fixture
def provider_with_subresources(app, database):
    """A provider with two items of each subresource."""
    provider = make_provider(database, VCPU=8, DISK_GB=100)
    for noun, held in (
        ("traits", ["HW_CPU_X86_AVX", "HW_CPU_X86_AVX2"]),
        ("aggregates", [str(uuid4()), str(uuid4())]),
    ):
        path = f"{PROVIDERS_PATH}/{provider}/{noun}"
        generation = app.get(path, headers=LATEST_HEADERS).json["resource_provider_generation"]
        body = {noun: held, "resource_provider_generation": generation}
        app.put_json(path, body, headers=LATEST_HEADERS)
    for consumer in list_consumer_uuids():
        body = build_body(LATEST, {provider: {"VCPU": 1, "DISK_GB": 2}})
        app.put_json(f"/placement/allocations/{consumer}", body, headers=LATEST_HEADERS)
    return provider


def list_consumer_uuids():
    return [f"0a0b0c0d-0000-4000-8000-00000000000{number}" for number in range(2)]


@pytest.fixture
def empty_provider(app):
    """A provider without subresources."""
    body = {"name": "bare", "uuid": str(uuid4())}
    app.post_json(PROVIDERS_PATH, body, headers=LATEST_HEADERS)
    return body["uuid"]


def read_in_one_sql_statement(app, path, status=200):
    """Return the document at ``path``, and check that it takes a single statement."""
    with record_statements(app.app.services.database) as seen:
        response = app.get(path, headers=LATEST_HEADERS, status=status)
    assert len(seen) == 1
    return response.json


def list_uuids_in_tree(app, uuid):
    document = read_in_one_sql_statement(app, f"{PROVIDERS_PATH}?in_tree={uuid}")
    return {provider["uuid"] for provider in document["resource_providers"]}


def create_child_provider(app, parent):
    body = {"name": str(uuid4()), "uuid": str(uuid4()), "parent_provider_uuid": parent}
    app.post_json(PROVIDERS_PATH, body, headers=LATEST_HEADERS)
    return body["uuid"]


def test_read_of_each_provider_subresource_takes_one_sql_statement(app, provider_with_subresources):
    for uuid in (provider_with_subresources, provider_with_subresources.upper()):
        for noun in PROVIDER_SUBRESOURCES:
            document = read_in_one_sql_statement(app, f"{PROVIDERS_PATH}/{uuid}/{noun}")
            assert len(document.pop(noun)) == 2
            assert list(document) == ["resource_provider_generation"]
    inventory = read_in_one_sql_statement(
        app, f"{PROVIDERS_PATH}/{provider_with_subresources}/inventories/VCPU"
    )
    assert inventory["total"] == 8


def test_read_of_an_empty_provider_subresource_takes_one_sql_statement(app, empty_provider):
    for noun in PROVIDER_SUBRESOURCES:
        document = read_in_one_sql_statement(app, f"{PROVIDERS_PATH}/{empty_provider}/{noun}")
        assert not document.pop(noun), noun
        assert document == {"resource_provider_generation": 0}, noun


def test_read_of_an_unknown_provider_takes_one_sql_statement(app, empty_provider):
    for noun in PROVIDER_SUBRESOURCES:
        read_in_one_sql_statement(app, f"{PROVIDERS_PATH}/{uuid4()}/{noun}", status=404)


def test_reading_allocations_of_a_consumer_takes_one_sql_statement(app, provider_with_subresources):
    consumer, _ = list_consumer_uuids()
    for uuid in (consumer, consumer.upper()):
        response = read_in_one_sql_statement(app, f"/placement/allocations/{uuid}")
        assert response["allocations"][provider_with_subresources]["resources"] == {
            "VCPU": 1,
            "DISK_GB": 2,
        }
    assert read_in_one_sql_statement(app, f"/placement/allocations/{uuid4()}") == {
        "allocations": {}
    }


def test_in_tree_query_of_any_provider_takes_one_sql_statement(
    app, empty_provider, provider_with_subresources
):
    child = create_child_provider(app, empty_provider)
    everyone = {empty_provider, child, create_child_provider(app, child)}
    for member in everyone:
        assert (
            list_uuids_in_tree(app, member) == list_uuids_in_tree(app, member.upper()) == everyone
        )
    assert list_uuids_in_tree(app, provider_with_subresources) == {provider_with_subresources}
    assert list_uuids_in_tree(app, uuid4()) == set()


def test_in_tree_query_for_a_provider_without_root_finds_only_itself(
    app, empty_provider, provider_with_subresources, database
):
    """Databases from before nested providers may have such providers."""
    rootless = update(resource_providers).values(root_provider_id=None)
    database.write(lambda connection: connection.execute(rootless))
    assert list_uuids_in_tree(app, empty_provider) == {empty_provider}


@pytest.mark.all_databases
def test_in_tree_and_name_filters_of_providers_can_be_combined(app, empty_provider):
    child = create_child_provider(app, empty_provider)
    both = f"{PROVIDERS_PATH}?in_tree={empty_provider}&uuid={child.upper()}"
    assert [
        provider["uuid"] for provider in read_in_one_sql_statement(app, both)["resource_providers"]
    ] == [child]
    assert read_in_one_sql_statement(app, f"{both}&name=bare")["resource_providers"] == []


@pytest.mark.all_databases
def test_provider_filters_can_be_combined_with_a_uuid_in_any_format(
    app, empty_provider, provider_with_subresources
):
    aggregate = str(uuid4())
    body = {"aggregates": [aggregate], "resource_provider_generation": 0}
    app.put_json(f"{PROVIDERS_PATH}/{empty_provider}/aggregates", body, headers=LATEST_HEADERS)
    for spelled in (empty_provider, empty_provider.upper()):
        rest = f"in_tree={spelled}&member_of={aggregate}&member_of=!{uuid4()}"
        for more in ("", "&name=bare", "&required=!HW_CPU_X86_SSE"):
            assert list_provider_uuids(app, f"uuid={spelled}&{rest}{more}") == [empty_provider]
        assert list_provider_uuids(app, f"uuid={provider_with_subresources.upper()}&{rest}") == []


def list_provider_uuids(app, query):
    document = app.get(f"{PROVIDERS_PATH}?{query}", headers=LATEST_HEADERS).json
    return [provider["uuid"] for provider in document["resource_providers"]]
