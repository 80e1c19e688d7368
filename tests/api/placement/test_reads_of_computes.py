# SPDX-License-Identifier: Apache-2.0
"""What each nova-compute asks of its providers every minute: one SQL statement each."""

from uuid import uuid4

import pytest
from sqlalchemy import update

from placement_sched.db.tables import resource_providers
from tests.support.allocation_bodies import build_body
from tests.support.providers import make_provider
from tests.support.statements import record_statements
from tests.support.versions import LATEST, LATEST_HEADERS

PROVIDERS = "/placement/resource_providers"
NOUNS = ("inventories", "aggregates", "traits", "allocations", "usages")


@pytest.fixture
def database(app):
    return app.app.services.database


@pytest.fixture
def stocked(app, database):
    """A provider with two of everything."""
    provider = make_provider(database, VCPU=8, DISK_GB=100)
    for noun, held in (
        ("traits", ["HW_CPU_X86_AVX", "HW_CPU_X86_AVX2"]),
        ("aggregates", [str(uuid4()), str(uuid4())]),
    ):
        path = f"{PROVIDERS}/{provider}/{noun}"
        generation = app.get(path, headers=LATEST_HEADERS).json["resource_provider_generation"]
        body = {noun: held, "resource_provider_generation": generation}
        app.put_json(path, body, headers=LATEST_HEADERS)
    for consumer in consumers():
        body = build_body(LATEST, {provider: {"VCPU": 1, "DISK_GB": 2}})
        app.put_json(f"/placement/allocations/{consumer}", body, headers=LATEST_HEADERS)
    return provider


def consumers():
    return [f"0a0b0c0d-0000-4000-8000-00000000000{number}" for number in range(2)]


@pytest.fixture
def bare(app):
    """A provider with nothing at all."""
    body = {"name": "bare", "uuid": str(uuid4())}
    app.post_json(PROVIDERS, body, headers=LATEST_HEADERS)
    return body["uuid"]


def read(app, path, status=200):
    """Return the document at ``path``, which takes one statement."""
    with record_statements(app.app.services.database) as seen:
        answer = app.get(path, headers=LATEST_HEADERS, status=status)
    assert len(seen) == 1
    return answer.json


def tree(app, uuid):
    return {one["uuid"] for one in read(app, f"{PROVIDERS}?in_tree={uuid}")["resource_providers"]}


def child_of(app, parent):
    body = {"name": str(uuid4()), "uuid": str(uuid4()), "parent_provider_uuid": parent}
    app.post_json(PROVIDERS, body, headers=LATEST_HEADERS)
    return body["uuid"]


@pytest.mark.parametrize("noun", NOUNS)
@pytest.mark.parametrize("spelled", [str, str.upper], ids=["canonical", "capitals"])
def test_a_noun_of_a_provider_takes_one_statement(app, stocked, noun, spelled):
    found = read(app, f"{PROVIDERS}/{spelled(stocked)}/{noun}")
    assert len(found.pop(noun)) == 2
    assert list(found) == ["resource_provider_generation"]


@pytest.mark.parametrize("noun", NOUNS)
def test_a_provider_that_has_none_takes_one_statement(app, bare, noun):
    found = read(app, f"{PROVIDERS}/{bare}/{noun}")
    assert not found.pop(noun)
    assert found == {"resource_provider_generation": 0}


@pytest.mark.parametrize("noun", NOUNS)
def test_an_unknown_provider_takes_one_statement(app, bare, noun):
    read(app, f"{PROVIDERS}/{uuid4()}/{noun}", status=404)


def test_one_inventory_takes_one_statement(app, stocked):
    assert read(app, f"{PROVIDERS}/{stocked}/inventories/VCPU")["total"] == 8


@pytest.mark.parametrize("spelled", [str, str.upper], ids=["canonical", "capitals"])
def test_what_a_consumer_holds_takes_one_statement(app, stocked, spelled):
    found = read(app, f"/placement/allocations/{spelled(consumers()[0])}")
    assert found["allocations"][stocked]["resources"] == {"VCPU": 1, "DISK_GB": 2}


def test_a_consumer_that_holds_nothing_takes_one_statement(app, bare):
    assert read(app, f"/placement/allocations/{uuid4()}") == {"allocations": {}}


def test_a_tree_takes_one_statement_whichever_member_is_named(app, bare, stocked):
    child = child_of(app, bare)
    everyone = {bare, child, child_of(app, child)}
    for member in everyone:
        assert tree(app, member) == tree(app, member.upper()) == everyone
    assert tree(app, stocked) == {stocked}
    assert tree(app, uuid4()) == set()


def test_a_provider_without_root_is_a_tree_of_its_own(app, bare, stocked, database):
    """As a database from before nested providers may have it."""
    rootless = update(resource_providers).values(root_provider_id=None)
    database.write(lambda connection: connection.execute(rootless))
    assert tree(app, bare) == {bare}


@pytest.mark.all_databases
def test_a_tree_and_a_name_narrow_each_other(app, bare):
    child = child_of(app, bare)
    both = f"{PROVIDERS}?in_tree={bare}&uuid={child.upper()}"
    assert [one["uuid"] for one in read(app, both)["resource_providers"]] == [child]
    assert read(app, f"{both}&name=bare")["resource_providers"] == []


@pytest.mark.all_databases
def test_every_filter_may_come_with_a_uuid_in_any_spelling(app, bare, stocked):
    aggregate = str(uuid4())
    body = {"aggregates": [aggregate], "resource_provider_generation": 0}
    app.put_json(f"{PROVIDERS}/{bare}/aggregates", body, headers=LATEST_HEADERS)
    for spelled in (bare, bare.upper()):
        rest = f"in_tree={spelled}&member_of={aggregate}&member_of=!{uuid4()}"
        for more in ("", "&name=bare", "&required=!HW_CPU_X86_SSE"):
            assert listed(app, f"uuid={spelled}&{rest}{more}") == [bare]
        assert listed(app, f"uuid={stocked.upper()}&{rest}") == []


def listed(app, query):
    found = app.get(f"{PROVIDERS}?{query}", headers=LATEST_HEADERS).json
    return [one["uuid"] for one in found["resource_providers"]]
