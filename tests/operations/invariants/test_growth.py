"""Two looks at the generations show which fell: never one of what was deleted and made again."""

import pytest
from sqlalchemy import update

from placement_sched.db.tables import consumers, resource_providers
from placement_sched.operations.invariants.growth import fallen, generations
from tests.clouds import uuid_of
from tests.invariants import break_tables, generations_only_grow
from tests.placing import report
from tests.versions import LATEST_HEADERS

CN1, CONSUMER = report("cn1")["uuid"], uuid_of("consumer")


@pytest.fixture
def client(app):
    app.post_json("/scheduler/v1/compute_nodes", [report("cn1")])
    _hold(app, 1)
    return app


def _hold(app, vcpus, generation=None):
    body = {
        "allocations": {CN1: {"resources": {"VCPU": vcpus}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": generation,
        "consumer_type": "INSTANCE",
    }
    app.put_json(f"/placement/allocations/{CONSUMER}", body, headers=LATEST_HEADERS)


def test_generations_that_grow_are_as_they_should_be(client, database):
    before = generations(database)
    with generations_only_grow(database):
        _hold(client, 2, generation=1)
    after = generations(database)
    assert sum(after.consumers.values()) > sum(before.consumers.values())
    assert sum(after.providers.values()) > sum(before.providers.values())


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (resource_providers, f"the generation of provider {CN1} went from "),
        (consumers, f"the generation of consumer {CONSUMER} went from 1 to 0"),
    ],
    ids=["provider", "consumer"],
)
def test_generation_that_fell_is_reported(client, database, table, words):
    before = generations(database)
    break_tables(database, update(table).values(generation=0))
    (found,) = fallen(before, generations(database))
    assert words in found.detail


def test_provider_that_is_made_again_begins_again(client, database):
    client.delete(f"/placement/allocations/{CONSUMER}", headers=LATEST_HEADERS)
    with generations_only_grow(database):
        client.delete(f"/placement/resource_providers/{CN1}", headers=LATEST_HEADERS)
        body = {"uuid": CN1, "name": "cn1"}
        client.post_json("/placement/resource_providers", body, headers=LATEST_HEADERS)
