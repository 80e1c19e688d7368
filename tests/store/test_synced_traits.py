# SPDX-License-Identifier: Apache-2.0
"""A provider that was made anew under its uuid has nothing of what was put on the one before.

Nothing of ours need see that: OpenStack's placement on the same database deletes and makes it too.
"""

import pytest
from sqlalchemy import update

from placement_sched.db import tables
from placement_sched.model.provider_sync import ChangeResult, TraitRecord
from placement_sched.operations.provider_sync import sync_traits
from placement_sched.store import synced_traits
from tests.support.host_maps import (
    LICENSED,
    add_aggregate,
    add_unrecorded_trait,
    build_trait_removal,
    local_services,
    read_providers_with_trait,
    recreate_provider,
    set_metadata,
)
from tests.support.hosts import add_node

pytestmark = pytest.mark.all_databases

ASKING = {f"trait:{LICENSED}": "required"}
NOT_ASKING = {f"trait:{LICENSED}": None}


def record(database):
    with database.read() as connection:
        return synced_traits.read(connection).pairs


@pytest.mark.parametrize("runs_meanwhile", [0, 1])
def test_what_was_put_by_hand_on_a_provider_made_anew_stays(database, runs_meanwhile):
    node = add_node(database, "win1")
    add_aggregate(database, "windows", ["win1"], ASKING)
    sync_traits(*local_services(database))
    recreate_provider(database, node)
    add_unrecorded_trait(database, node)
    for _ in range(runs_meanwhile):
        assert sync_traits(*local_services(database)).added == set()
        assert record(database) == {}
    set_metadata(database, "windows", NOT_ASKING)
    assert sync_traits(*local_services(database), dry_run=True).removed == set()
    assert sync_traits(*local_services(database)).removed == set()
    assert read_providers_with_trait(database) == {node}
    with database.read() as connection:
        assert synced_traits.read(connection) == TraitRecord()


def test_what_it_put_on_a_provider_made_anew_is_taken_off(database):
    node = add_node(database, "win1")
    aggregate = add_aggregate(database, "windows", ["win1"], ASKING)
    sync_traits(*local_services(database))
    recreate_provider(database, node)
    assert sync_traits(*local_services(database)).added == {(node, LICENSED)}
    assert record(database) == {(node, LICENSED): aggregate}
    set_metadata(database, "windows", NOT_ASKING)
    assert sync_traits(*local_services(database)).removed == {(node, LICENSED)}
    assert read_providers_with_trait(database) == set()


def test_a_provider_made_anew_between_plan_and_deed_keeps_its_trait(database):
    node = add_node(database, "win1")
    add_aggregate(database, "windows", ["win1"], ASKING)
    sync_traits(*local_services(database))
    set_metadata(database, "windows", NOT_ASKING)
    _, placement = local_services(database)
    recreate_provider(database, node)
    add_unrecorded_trait(database, node)
    assert placement.change(build_trait_removal(LICENSED, node)) == ChangeResult()
    assert read_providers_with_trait(database) == {node}


def test_what_another_run_noted_of_a_provider_made_anew_is_not_forgotten(database):
    """Two that run at once: one has read the record before the other puts the trait again."""
    node = add_node(database, "win1")
    aggregate = add_aggregate(database, "windows", ["win1"], ASKING)
    sync_traits(*local_services(database))
    recreate_provider(database, node)
    _, slower = local_services(database)
    outlived = slower.read_record().outlived
    sync_traits(*local_services(database))
    slower.update_record(outlived, {}, ())
    assert record(database) == {(node, LICENSED): aggregate}


def test_what_was_put_before_ids_were_kept_is_taken_off_as_ever(sqlite_database):
    node = add_node(sqlite_database, "win1")
    add_aggregate(sqlite_database, "windows", ["win1"], ASKING)
    sync_traits(*local_services(sqlite_database))
    nameless = update(tables.synced_traits).values(provider_id=None)
    sqlite_database.write(lambda connection: connection.execute(nameless))
    set_metadata(sqlite_database, "windows", NOT_ASKING)
    assert sync_traits(*local_services(sqlite_database)).removed == {(node, LICENSED)}
