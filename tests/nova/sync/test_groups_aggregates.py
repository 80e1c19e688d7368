# SPDX-License-Identifier: Apache-2.0
"""Host aggregates and server groups follow nova: ids, uuids, names and rules."""

import pytest

from placement_sched.store import change_counters
from placement_sched.store.compute import host_aggregates, server_groups


@pytest.fixture
def read_aggregates(database):
    def read_aggregates_by_name():
        with database.read() as connection:
            return {
                aggregate.name: aggregate for aggregate in host_aggregates.read_snapshot(connection)
            }

    return read_aggregates_by_name


@pytest.fixture
def read_aggregates_version(database):
    def read_counter():
        with database.read() as connection:
            return change_counters.get_version(connection, host_aggregates.SUBJECT)

    return read_counter


@pytest.mark.all_databases
@pytest.mark.parametrize("reading", ["sync_all", "sync_changes"])
def test_changed_and_deleted_aggregates_of_nova_are_recorded(
    follower, nova, read_aggregates, reading
):
    first = nova.add_aggregate("first", ("cn1", "cn2"), a="1", b="2")
    second = nova.add_aggregate("second", ("cn1",))
    follower.sync_all()
    nova.api.remove("aggregate_hosts", host="cn2")
    nova.api.remove("aggregate_metadata", key="a")
    nova.api.change("aggregate_metadata", {"key": "b"}, value="3")
    nova.api.remove("aggregate_hosts", aggregate_id=second)
    nova.api.remove("aggregates", id=second)
    third = nova.add_aggregate("third", ("cn2",))
    getattr(follower, reading)()
    rows = read_aggregates()
    assert {row.id for row in rows.values()} == {first, third}
    assert (rows["first"].hosts, rows["first"].metadata) == ({"cn1"}, {"b": "3"})


@pytest.mark.all_databases
def test_two_aggregates_can_swap_names(follower, nova, read_aggregates):
    first, second = nova.add_aggregate("a", ("cn1",), k="1"), nova.add_aggregate("b", ("cn2",))
    follower.sync_all()
    for number, name in ((first, "c"), (second, "a"), (first, "b")):
        nova.api.change("aggregates", {"id": number}, name=name)
    follower.sync_changes()
    rows = read_aggregates()
    assert {name: row.id for name, row in rows.items()} == {"a": second, "b": first}
    assert (rows["b"].hosts, rows["b"].metadata) == ({"cn1"}, {"k": "1"})


@pytest.mark.all_databases
def test_local_aggregates_are_replaced_by_aggregates_of_nova(
    follower, nova, database, read_aggregates
):
    uuid = "6f0f1fd4-0000-4000-8000-000000000001"

    def add_aggregates(connection):
        for number, name in enumerate(("racks", "old")):
            aggregate = host_aggregates.add(connection, f"{uuid[:-1]}{number}", name, None)
            host_aggregates.add_hosts(connection, aggregate, ["cn9"], None)

    database.write(add_aggregates)
    nova.add_aggregate("first")
    nova.add_aggregate("racks", ("cn1",))
    follower.sync_all()
    aggregates_by_name = read_aggregates()
    assert aggregates_by_name.keys() == {"first", "racks"}
    assert aggregates_by_name["racks"].hosts == {"cn1"}


@pytest.mark.all_databases
def test_local_aggregate_gets_an_id_above_the_ids_of_nova(
    follower, nova, database, read_aggregates
):
    number = nova.add_aggregate("racks")
    follower.sync_all()
    uuid = "6f0f1fd4-0000-4000-8000-000000000001"
    local_id = database.write(lambda connection: host_aggregates.add(connection, uuid, "own", None))
    assert local_id > number


def test_unchanged_aggregates_keep_the_caches_of_other_processes(
    follower, nova, read_aggregates_version
):
    nova.add_aggregate("racks", ("cn1",))
    follower.sync_all()
    before = read_aggregates_version()
    follower.sync_changes()
    follower.sync_all()
    follower.refresh()
    assert read_aggregates_version() == before
    nova.add_aggregate("more")
    follower.sync_changes()
    assert read_aggregates_version() > before


def test_aggregates_named_by_a_notification_are_read_or_removed(follower, nova, read_aggregates):
    number = nova.add_aggregate("racks", ("cn1",))
    follower.sync_all()
    nova.api.add("aggregate_hosts", aggregate_id=number, host="cn2")
    follower.read_aggregates([number])
    assert read_aggregates()["racks"].hosts == {"cn1", "cn2"}
    nova.api.remove("aggregate_hosts", aggregate_id=number)
    nova.api.remove("aggregates", id=number)
    follower.read_aggregates([number])
    assert read_aggregates() == {}


@pytest.mark.all_databases
def test_deleted_server_group_of_nova_is_removed_and_another_is_kept(follower, nova, database):
    gone, kept = nova.add_group("gone"), nova.add_group("kept", max_server_per_host="3")
    uuid = nova.add_instance("cn1", group=gone)
    follower.sync_all()
    table = nova.api.tables["instance_groups"]
    with nova.api.engine.connect() as connection:
        number = connection.scalar(table.select().where(table.c.uuid == gone))
    nova.api.remove("instance_group_member", instance_uuid=uuid)
    nova.api.remove("instance_group_policy", group_id=number)
    nova.api.remove("instance_groups", uuid=gone)
    follower.refresh()
    with database.read() as connection:
        (group,) = server_groups.search(connection)
    assert (group.uuid, group.rules, group.members) == (kept, {"max_server_per_host": 3}, ())


def test_unreadable_server_group_is_reported(follower, nova):
    nova.add_group("none", policy=None)
    nova.add_group("old", policy="legacy")
    nova.add_group("wrong", max_server_per_host="many")
    reasons = sorted(issue.reason for issue in follower.sync_all().issues)
    assert ["no policy" in reasons[1], "legacy" in reasons[2], "many" in reasons[0]] == [True] * 3
