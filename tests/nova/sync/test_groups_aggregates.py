# SPDX-License-Identifier: Apache-2.0
"""Host aggregates and server groups: nova's numbers, uuids, names and rules."""

import pytest

from placement_sched.store import change_counters
from placement_sched.store.compute import host_aggregates, server_groups

pytestmark = pytest.mark.all_databases


@pytest.fixture
def aggregates(database):
    def aggregates():
        with database.read() as connection:
            return {one.name: one for one in host_aggregates.all_aggregates(connection)}

    return aggregates


@pytest.fixture
def version(database):
    def version():
        with database.read() as connection:
            return change_counters.version(connection, host_aggregates.SUBJECT)

    return version


@pytest.mark.parametrize("reading", ["full", "round"])
def test_aggregates_become_what_nova_has(follower, nova, aggregates, reading):
    first = nova.add_aggregate("first", ("cn1", "cn2"), a="1", b="2")
    second = nova.add_aggregate("second", ("cn1",))
    follower.full()
    nova.api.remove("aggregate_hosts", host="cn2")
    nova.api.remove("aggregate_metadata", key="a")
    nova.api.change("aggregate_metadata", {"key": "b"}, value="3")
    nova.api.remove("aggregate_hosts", aggregate_id=second)
    nova.api.remove("aggregates", id=second)
    third = nova.add_aggregate("third", ("cn2",))
    getattr(follower, reading)()
    found = aggregates()
    assert {one.id for one in found.values()} == {first, third}
    assert (found["first"].hosts, found["first"].metadata) == ({"cn1"}, {"b": "3"})


def test_two_aggregates_may_swap_their_names(follower, nova, aggregates):
    first, second = nova.add_aggregate("a", ("cn1",), k="1"), nova.add_aggregate("b", ("cn2",))
    follower.full()
    for number, name in ((first, "c"), (second, "a"), (first, "b")):
        nova.api.change("aggregates", {"id": number}, name=name)
    follower.round()
    assert {name: one.id for name, one in aggregates().items()} == {"a": second, "b": first}
    assert (aggregates()["b"].hosts, aggregates()["b"].metadata) == ({"cn1"}, {"k": "1"})


def test_aggregates_of_before_nova_give_way_to_novas(follower, nova, database, aggregates):
    uuid = "6f0f1fd4-0000-4000-8000-000000000001"

    def add(connection):
        for number, name in enumerate(("racks", "old")):
            made = host_aggregates.add(connection, f"{uuid[:-1]}{number}", name, None)
            host_aggregates.add_hosts(connection, made, ["cn9"], None)

    database.write(add)
    nova.add_aggregate("first")
    nova.add_aggregate("racks", ("cn1",))
    follower.full()
    found = aggregates()
    assert found.keys() == {"first", "racks"}
    assert found["racks"].hosts == {"cn1"}


def test_an_aggregate_may_be_made_here_after_novas_numbers(follower, nova, database, aggregates):
    number = nova.add_aggregate("racks")
    follower.full()
    uuid = "6f0f1fd4-0000-4000-8000-000000000001"
    made = database.write(lambda connection: host_aggregates.add(connection, uuid, "own", None))
    assert made > number


def test_what_did_not_change_leaves_the_memory_of_other_processes(follower, nova, version):
    nova.add_aggregate("racks", ("cn1",))
    follower.full()
    before = version()
    follower.round()
    follower.full()
    follower.refresh()
    assert version() == before
    nova.add_aggregate("more")
    follower.round()
    assert version() > before


def test_an_announced_aggregate_is_read_at_once(follower, nova, aggregates):
    number = nova.add_aggregate("racks", ("cn1",))
    follower.full()
    nova.api.add("aggregate_hosts", aggregate_id=number, host="cn2")
    announced = aggregates()["racks"]
    follower.aggregates_changed([announced])
    assert aggregates()["racks"].hosts == {"cn1", "cn2"}
    nova.api.remove("aggregate_hosts", aggregate_id=number)
    nova.api.remove("aggregates", id=number)
    follower.aggregate_deleted(number)
    assert aggregates() == {}


def test_groups_become_what_nova_has(follower, nova, database):
    gone, kept = nova.add_group("gone"), nova.add_group("kept", max_server_per_host="3")
    uuid = nova.add_instance("cn1", group=gone)
    follower.full()
    table = nova.api.tables["instance_groups"]
    with nova.api.engine.connect() as connection:
        number = connection.scalar(table.select().where(table.c.uuid == gone))
    nova.api.remove("instance_group_member", instance_uuid=uuid)
    nova.api.remove("instance_group_policy", group_id=number)
    nova.api.remove("instance_groups", uuid=gone)
    follower.refresh()
    with database.read() as connection:
        (found,) = server_groups.search(connection)
    assert (found.uuid, found.rules, found.members) == (kept, {"max_server_per_host": 3}, ())


def test_a_group_that_cannot_be_read_is_named(follower, nova):
    nova.add_group("none", policy=None)
    nova.add_group("old", policy="legacy")
    nova.add_group("wrong", max_server_per_host="many")
    reasons = sorted(one.reason for one in follower.full().misfits)
    assert ["no policy" in reasons[1], "legacy" in reasons[2], "many" in reasons[0]] == [True] * 3
