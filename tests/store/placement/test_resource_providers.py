# SPDX-License-Identifier: Apache-2.0
"""The store of providers: bulk creation, locks and generations.

Provider trees: moves of subtrees, rejected loops, and protected parents.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest

from placement_sched.errors import ConcurrentUpdate, Duplicate, InUse, Invalid, NotFound
from placement_sched.model.provider import Inventory
from placement_sched.store.placement import (
    aggregates,
    inventories,
    resource_providers,
    traits,
    usages,
)
from placement_sched.store.placement.resource_providers import NewProvider
from tests.support.providers import NOW
from tests.support.statements import record_statements, run_query

pytestmark = pytest.mark.all_databases

HOUR_LATER = NOW + timedelta(hours=1)


def create_provider(database, name, parent_uuid=None):
    return database.write(
        lambda connection: resource_providers.create(
            connection, uuid=str(uuid4()), name=name, parent_uuid=parent_uuid, now=NOW
        )
    )


def read_provider(database, provider):
    return run_query(database, resource_providers.get_by_uuid, provider.uuid)


def move_provider(database, provider, parent, *, anywhere=True):
    database.write(
        lambda connection: resource_providers.move(
            connection, provider.uuid, parent and parent.uuid, anywhere=anywhere, now=HOUR_LATER
        )
    )


@pytest.mark.parametrize("is_creation", [True, False], ids=["create", "move"])
def test_child_of_a_concurrently_recreated_parent_is_a_conflict(database, monkeypatch, is_creation):
    root, other = create_provider(database, "root"), create_provider(database, "other")
    parent = create_provider(database, "parent", root.uuid)
    lock = resource_providers.lock

    def recreate_parent_and_lock(connection, ids):
        monkeypatch.setattr(resource_providers, "lock", lock)
        resource_providers.remove(connection, parent.uuid)
        same = {"uuid": parent.uuid, "name": "parent", "parent_uuid": root.uuid}
        resource_providers.create(connection, **same, now=NOW)
        return lock(connection, ids)

    monkeypatch.setattr(resource_providers, "lock", recreate_parent_and_lock)
    with pytest.raises(ConcurrentUpdate, match="has just been changed"):
        create_provider(database, "child", parent.uuid) if is_creation else move_provider(
            database, other, parent
        )


def test_statement_count_of_creations_is_independent_of_providers(database):
    parent = create_provider(database, "parent")

    def count_statements_for_providers(count):
        rows = [NewProvider(str(uuid4()), f"n{uuid4()}") for _ in range(count)]
        rows.append(NewProvider(str(uuid4()), f"c{uuid4()}", parent))
        with record_statements(database) as seen:
            ids = database.write(
                lambda connection: resource_providers.create_many(connection, rows, NOW)
            )
        with database.read() as connection:
            providers = resource_providers.map_by_uuid(connection, ids)
        root, child = providers[rows[0].uuid], providers[rows[-1].uuid]
        assert (root.root_uuid, root.parent_uuid, root.generation) == (root.uuid, None, 0)
        assert (child.root_uuid, child.parent_uuid) == (parent.uuid, parent.uuid)
        return len(seen)

    assert count_statements_for_providers(2) == count_statements_for_providers(200)


@pytest.mark.parametrize("taken", ["name", "uuid"])
def test_error_of_a_duplicate_provider_has_its_name_or_uuid(database, taken):
    old = create_provider(database, "old")
    row = replace(NewProvider(str(uuid4()), "new"), **{taken: getattr(old, taken)})
    with pytest.raises(Duplicate, match=f"{taken}: {getattr(old, taken)} already exists"):
        database.write(lambda connection: resource_providers.create_many(connection, [row], NOW))
    new = create_provider(database, "new")
    with pytest.raises(Duplicate, match="provider name: old already exists"):
        database.write(
            lambda connection: resource_providers.rename_many(
                connection, {new.id: "old"}, HOUR_LATER
            )
        )
    assert read_provider(database, new).name == "new"


def test_locking_providers_returns_generations_of_existing_providers(database):
    one, two = create_provider(database, "one"), create_provider(database, "two")

    def increment_and_lock_providers(connection):
        resource_providers.bump_generations(connection, [two.id], HOUR_LATER)
        return resource_providers.lock(connection, [two.id, one.id, 2**31 - 1])

    assert database.write(increment_and_lock_providers) == {one.id: 0, two.id: 1}
    assert read_provider(database, two).updated_at == HOUR_LATER


def test_provider_is_found_by_a_uuid_in_any_format(database):
    provider = create_provider(database, "one")
    create_provider(database, "another")
    own = provider.uuid
    for uuid in (own.upper(), own.replace("-", ""), f"{{{own}}}", f"urn:uuid:{own}", own):
        with database.read() as connection:
            assert resource_providers.get_by_uuid(connection, uuid) == provider
        locked = database.write(
            lambda connection, uuid=uuid: resource_providers.lock_by_uuid(connection, uuid)
        )
        assert locked == provider
    for text in (f"{own} ", own[:-1], "ONE", "", "nobody"):
        with pytest.raises(NotFound, match=f"uuid {text} found"), database.read() as connection:
            resource_providers.get_by_uuid(connection, text)


def test_provider_with_an_uppercase_uuid_is_found(database):
    uuid = str(uuid4()).upper()
    database.write(
        lambda connection: resource_providers.create_many(
            connection, [NewProvider(uuid, "theirs")], NOW
        )
    )
    with database.read() as connection:
        provider = resource_providers.get_by_uuid(connection, uuid)
        assert traits.get_provider_traits(connection, uuid).provider_id == provider.id
        assert usages.get_by_provider_uuid(connection, uuid) == (0, {})
    assert (provider.uuid, provider.name) == (uuid, "theirs")


def lock_and_bump_generation(connection, provider):
    found = resource_providers.lock_by_uuid(connection, provider.uuid, 0)
    resource_providers.bump_generations(connection, [found.id], HOUR_LATER)


def read_and_bump_generation(connection, provider):
    found = resource_providers.get_by_uuid(connection, provider.uuid)
    resource_providers.bump_generation_from(connection, found.id, found.uuid, 0, HOUR_LATER)


@pytest.mark.parametrize("work", [lock_and_bump_generation, read_and_bump_generation])
def test_one_of_concurrent_writers_with_equal_generation_succeeds(database, work):
    provider = create_provider(database, "host")

    def bump_generation_once(_number):
        try:
            database.write(lambda connection: work(connection, provider))
        except ConcurrentUpdate:
            return 0
        return 1

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(bump_generation_once, range(8))) == 1
    assert read_provider(database, provider).generation == 1


def remove_provider(database, provider):
    database.write(lambda connection: resource_providers.remove(connection, provider.uuid))


def test_moved_provider_takes_its_subtree_along(database):
    here, there = create_provider(database, "here"), create_provider(database, "there")
    child = create_provider(database, "child", here.uuid)
    grandchild = create_provider(database, "grandchild", child.uuid)
    stays = create_provider(database, "stays", here.uuid)
    move_provider(database, child, there)
    assert read_provider(database, child).parent_uuid == there.uuid
    subtree = (child, grandchild)
    assert {read_provider(database, each).root_uuid for each in subtree} == {there.uuid}
    assert read_provider(database, grandchild).parent_uuid == child.uuid
    assert read_provider(database, stays).root_uuid == here.uuid
    move_provider(database, child, None)
    assert {read_provider(database, each).root_uuid for each in subtree} == {child.uuid}


def test_statement_count_of_a_move_is_independent_of_tree_depth(database):
    def count_statements_of_move(depth):
        top = create_provider(database, f"n{uuid4()}")
        last = top
        for _ in range(depth):
            last = create_provider(database, f"n{uuid4()}", last.uuid)
        goal = create_provider(database, f"n{uuid4()}")
        with record_statements(database) as seen:
            move_provider(database, top, goal)
        assert read_provider(database, last).root_uuid == goal.uuid
        return len(seen)

    assert count_statements_of_move(1) == count_statements_of_move(8)


def test_move_of_a_provider_below_itself_is_rejected(database):
    tree = [create_provider(database, "0")]
    for level in (1, 2):
        tree.append(create_provider(database, str(level), tree[-1].uuid))
    for parent in tree:
        with pytest.raises(Invalid, match="loop"):
            move_provider(database, tree[0], parent)


def test_concurrent_moves_of_providers_make_no_parent_loop(database):
    first, second = create_provider(database, "one"), create_provider(database, "two")

    def attempt_move(pair):
        with suppress(Invalid, ConcurrentUpdate):
            move_provider(database, *pair)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(attempt_move, [(first, second), (second, first)] * 3))
    parents = {read_provider(database, each).parent_uuid for each in (first, second)}
    assert len(parents) == 2
    assert None in parents


def test_deletion_removes_all_rows_of_a_provider_and_is_rejected_for_a_parent(database):
    parent = create_provider(database, "parent")
    child = create_provider(database, "child", parent.uuid)

    def write_inventory_and_aggregate(connection):
        stock = [Inventory(resource_class="VCPU", total=1)]
        inventories.put(connection, {child.id: stock}, NOW)
        aggregates.add_members(connection, str(uuid4()), [child.id], NOW)

    database.write(write_inventory_and_aggregate)
    with pytest.raises(InUse, match="child") as rejection:
        remove_provider(database, parent)
    assert rejection.value.code == "placement.resource_provider.cannot_delete_parent"
    remove_provider(database, child)
    with database.read() as connection:
        assert inventories.map_by_provider_id(connection, [child.id]) == {}
        assert child.id not in aggregates.map_by_provider_id(connection)
    with pytest.raises(NotFound):
        read_provider(database, child)
    remove_provider(database, parent)
