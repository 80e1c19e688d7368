# SPDX-License-Identifier: Apache-2.0
"""Provider trees: subtrees move whole, make no loop, and a parent is not deleted."""

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

from placement_sched.errors import ConcurrentUpdate, InUse, Invalid, NotFound
from placement_sched.model.provider import Inventory
from placement_sched.store.placement import aggregates, inventories, provider_trees
from tests.store.placement.test_resource_providers import make, move, read
from tests.support.providers import NOW
from tests.support.statements import record_statements

pytestmark = pytest.mark.all_databases


def remove(database, provider):
    database.write(lambda connection: provider_trees.remove(connection, provider.uuid))


def test_a_subtree_moves_whole(database):
    here, there = make(database, "here"), make(database, "there")
    child = make(database, "child", here.uuid)
    grandchild = make(database, "grandchild", child.uuid)
    stays = make(database, "stays", here.uuid)
    move(database, child, there)
    assert read(database, child).parent_uuid == there.uuid
    assert {read(database, one).root_uuid for one in (child, grandchild)} == {there.uuid}
    assert read(database, grandchild).parent_uuid == child.uuid
    assert read(database, stays).root_uuid == here.uuid
    move(database, child, None)
    assert {read(database, one).root_uuid for one in (child, grandchild)} == {child.uuid}


def test_a_move_takes_as_many_statements_for_a_deep_tree(database):
    def statements(depth):
        top = make(database, f"n{uuid4()}")
        last = top
        for _ in range(depth):
            last = make(database, f"n{uuid4()}", last.uuid)
        goal = make(database, f"n{uuid4()}")
        with record_statements(database) as seen:
            move(database, top, goal)
        assert read(database, last).root_uuid == goal.uuid
        return len(seen)

    assert statements(1) == statements(8)


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_tree_never_becomes_a_loop(database, depth):
    tree = [make(database, "0")]
    for level in (1, 2):
        tree.append(make(database, str(level), tree[-1].uuid))
    with pytest.raises(Invalid, match="loop"):
        move(database, tree[0], tree[depth])


def test_two_moves_at_once_make_no_loop(database):
    one, two = make(database, "one"), make(database, "two")

    def attempt(pair):
        try:
            move(database, *pair)
        except (Invalid, ConcurrentUpdate):
            return 0
        return 1

    with ThreadPoolExecutor(2) as pool:
        moved = sum(pool.map(attempt, [(one, two), (two, one)] * 3))
    parents = {read(database, one).parent_uuid, read(database, two).parent_uuid}
    assert moved >= 1
    assert None in parents


def test_only_a_root_moves_where_moving_is_not_allowed(database):
    here, there = make(database, "here"), make(database, "there")
    child = make(database, "child", here.uuid)
    with pytest.raises(Invalid, match="re-parenting"):
        move(database, child, there, anywhere=False)
    with pytest.raises(Invalid, match="un-parenting"):
        move(database, child, None, anywhere=False)
    move(database, child, here, anywhere=False)
    move(database, here, there, anywhere=False)
    assert read(database, child).root_uuid == there.uuid


def test_a_deleted_provider_leaves_nothing(database):
    provider = make(database, "host")

    def fill(connection):
        stock = [Inventory(resource_class="VCPU", total=1)]
        inventories.put(connection, {provider.id: stock}, NOW)
        aggregates.add_members(connection, str(uuid4()), [provider.id], NOW)

    database.write(fill)
    remove(database, provider)
    with database.read() as connection:
        assert inventories.of_provider(connection, provider.id) == ()
        assert aggregates.of_provider(connection, provider.id) == ()
    with pytest.raises(NotFound):
        read(database, provider)


def test_a_parent_is_not_deleted(database):
    parent = make(database, "parent")
    child = make(database, "child", parent.uuid)
    with pytest.raises(InUse, match="child") as refusal:
        remove(database, parent)
    assert refusal.value.code == "placement.resource_provider.cannot_delete_parent"
    remove(database, child)
    remove(database, parent)
