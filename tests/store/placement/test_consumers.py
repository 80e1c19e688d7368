# SPDX-License-Identifier: Apache-2.0
"""Consumers: owner, type and generation, and deletion without allocations."""

from uuid import uuid4

import pytest
from sqlalchemy import insert, select

from placement_sched.db import tables
from placement_sched.errors import ConcurrentUpdate
from placement_sched.store.placement import allocations
from tests.store.placement.claims import (
    PROJECT_AND_USER,
    build_claim,
    build_vcpu_claim,
    list_stored_consumers,
    read_allocations,
    read_provider_generation,
    replace_allocations,
)
from tests.support.providers import make_provider
from tests.support.statements import run_query

pytestmark = pytest.mark.all_databases


def read_consumer(database, uuid):
    return run_query(database, allocations.list_by_consumers, [uuid])[0].consumer


def test_claim_sets_owner_type_and_generation_of_the_consumer(database):
    provider = make_provider(database, VCPU=8)
    first = build_vcpu_claim(provider, 2, consumer_type="INSTANCE")
    replace_allocations(database, first)
    stored = read_consumer(database, first.consumer)
    assert (stored.generation, stored.project_id, stored.user_id) == (1, "project", "user")
    assert stored.consumer_type == "INSTANCE"
    other = {"project_id": "other", "user_id": "somebody"}
    replace_allocations(database, build_claim(first.consumer, 1, other, on={provider: {"VCPU": 1}}))
    changed = read_consumer(database, first.consumer)
    assert (changed.generation, changed.project_id, changed.user_id) == (2, "other", "somebody")
    assert changed.consumer_type == "INSTANCE", "a claim without a type keeps the type"
    assert read_provider_generation(database, provider) == 2


def test_consumer_without_allocations_is_deleted(database):
    provider = make_provider(database, VCPU=8)
    leaving, staying = build_vcpu_claim(provider, 1), build_vcpu_claim(provider, 2)
    replace_allocations(database, leaving, staying)
    replace_allocations(database, build_claim(leaving.consumer, 1), build_claim(generation=None))
    assert list_stored_consumers(database) == {staying.consumer}
    replace_allocations(database, build_vcpu_claim(provider, 1, leaving.consumer, None))
    assert read_consumer(database, leaving.consumer).generation == 1


@pytest.mark.parametrize("generation", [None, 0, 2])
def test_claim_with_a_wrong_consumer_generation_is_a_conflict(sqlite_database, generation):
    provider = make_provider(sqlite_database, VCPU=8)
    first = build_vcpu_claim(provider, 1)
    replace_allocations(sqlite_database, first)
    sent = "null" if generation is None else generation
    with pytest.raises(ConcurrentUpdate, match=f"expected 1 but got {sent}"):
        replace_allocations(
            sqlite_database, build_vcpu_claim(provider, 2, first.consumer, generation)
        )
    assert list(read_allocations(sqlite_database, first.consumer).values()) == [1]
    # The generation is checked before the provider and the class.
    unknown = build_claim(generation=4, on={str(uuid4()): {"NO_SUCH": 1}})
    with pytest.raises(ConcurrentUpdate, match="expected null but got 4"):
        replace_allocations(sqlite_database, unknown)
    assert list_stored_consumers(sqlite_database) == {first.consumer}


def test_claim_for_a_stored_consumer_without_allocations_may_have_generation_null(database):
    provider, uuid = make_provider(database, VCPU=8), str(uuid4())
    row = {"uuid": uuid, "project_id": 1, "user_id": 1, "generation": 0}
    database.write(lambda connection: connection.execute(insert(tables.consumers), row))
    replace_allocations(database, build_vcpu_claim(provider, 1, uuid, None))
    assert read_consumer(database, uuid).generation == 1


def test_project_id_differing_in_case_is_stored_on_every_database(database):
    provider = make_provider(database, VCPU=8)
    for project in ("Alpha", "alpha", "ALPHA"):
        replace_allocations(
            database,
            build_claim(
                owner={**PROJECT_AND_USER, "project_id": project}, on={provider: {"VCPU": 1}}
            ),
        )
    with database.read() as connection:
        owners = select(tables.projects.c.external_id)
        assert {name.lower() for name in connection.scalars(owners)} == {"alpha"}
