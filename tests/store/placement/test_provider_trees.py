# SPDX-License-Identifier: Apache-2.0
"""Provider trees: moves of subtrees, rejected loops, and protected parents."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from uuid import uuid4

import pytest

from placement_sched.errors import ConcurrentUpdate, InUse, Invalid, NotFound
from placement_sched.model.provider import Inventory
from placement_sched.store.placement import aggregates, inventories, resource_providers
from tests.store.placement.test_resource_providers import (
    create_provider,
    move_provider,
    read_provider,
)
from tests.support.providers import NOW
from tests.support.statements import record_statements

pytestmark = pytest.mark.all_databases


def remove_provider(database, provider):
    database.write(lambda connection: resource_providers.remove(connection, provider.uuid))


def test_move_of_a_provider_moves_its_subtree(database):
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


def test_statement_count_is_independent_of_tree_depth(database):
    def count_statements(depth):
        top = create_provider(database, f"n{uuid4()}")
        last = top
        for _ in range(depth):
            last = create_provider(database, f"n{uuid4()}", last.uuid)
        goal = create_provider(database, f"n{uuid4()}")
        with record_statements(database) as seen:
            move_provider(database, top, goal)
        assert read_provider(database, last).root_uuid == goal.uuid
        return len(seen)

    assert count_statements(1) == count_statements(8)


def test_move_that_makes_a_loop_is_rejected(database):
    tree = [create_provider(database, "0")]
    for level in (1, 2):
        tree.append(create_provider(database, str(level), tree[-1].uuid))
    for parent in tree:
        with pytest.raises(Invalid, match="loop"):
            move_provider(database, tree[0], parent)


def test_concurrent_moves_of_providers_make_no_loop(database):
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

    def write_rows(connection):
        stock = [Inventory(resource_class="VCPU", total=1)]
        inventories.put(connection, {child.id: stock}, NOW)
        aggregates.add_members(connection, str(uuid4()), [child.id], NOW)

    database.write(write_rows)
    with pytest.raises(InUse, match="child") as rejection:
        remove_provider(database, parent)
    assert rejection.value.code == "placement.resource_provider.cannot_delete_parent"
    remove_provider(database, child)
    with database.read() as connection:
        assert inventories.of_provider(connection, child.id) == ()
        assert aggregates.of_provider(connection, child.id) == ()
    with pytest.raises(NotFound):
        read_provider(database, child)
    remove_provider(database, parent)
