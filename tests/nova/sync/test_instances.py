# SPDX-License-Identifier: Apache-2.0
"""Instances: what was claimed here stays until nova knows, and what nova deletes goes."""

from datetime import timedelta
from threading import Thread
from uuid import UUID, uuid4

import pytest
from sqlalchemy import select

from placement_sched.db import tables
from placement_sched.model.checks import Invariant
from placement_sched.model.clock import utcnow
from placement_sched.model.instance import Instance
from placement_sched.nova.sync.instances import InstanceSync
from placement_sched.store.compute import flavors, instances, server_groups
from tests.support.invariants import assert_invariants
from tests.support.nova_clouds import build_flavor_json

pytestmark = pytest.mark.all_databases

#: What is recorded of these instances only.
NOT_CLAIMED = {Invariant.NOT_CLAIMED}
IMAGE = {"id": str(UUID(int=7)), "properties": {"hw_architecture": "x86_64"}}


def claimed(uuid, host="cn1", **others):
    values = dict.fromkeys(("task_state", "flavor", "server_group"))
    return Instance(
        uuid=uuid,
        host=host,
        node=host,
        display_name=uuid,
        **{
            **values,
            "project_id": "demo",
            "user_id": "ann",
            "vm_state": "building",
            "decision_uuid": str(UUID(int=1)),
            "image": IMAGE,
            **others,
        },
    )


@pytest.fixture
def record(database):
    def record(*some, now=None):
        database.write(lambda connection: instances.record(connection, some, now or utcnow()))

    return record


@pytest.fixture
def recorded(database):
    def recorded():
        with database.read() as connection:
            return {one.uuid: one for one in instances.search(connection)}

    return recorded


def test_a_claim_that_no_cell_knows_yet_stays_for_ten_minutes(follower, nova, record, recorded):
    young, old = str(uuid4()), str(uuid4())
    record(claimed(young))
    record(claimed(old), now=utcnow() - timedelta(seconds=700))
    follower.full()
    assert recorded().keys() == {young}


def test_an_instance_without_a_claim_that_no_cell_knows_goes(follower, record, recorded):
    record(claimed(str(uuid4()), decision_uuid=None))
    follower.full()
    assert recorded() == {}


def test_a_claim_whose_instance_was_buried_goes_at_once(follower, nova, record, recorded):
    uuid = str(uuid4())
    follower.full()
    record(claimed(uuid))
    nova.cell0.add("instances", uuid=uuid, vm_state="error", hidden=False)
    nova.api.add(
        "instance_mappings",
        instance_uuid=uuid,
        cell_id=1,
        project_id="demo",
        queued_for_delete=False,
    )
    follower.round()
    assert recorded() == {}


def test_a_claim_whose_server_was_deleted_meanwhile_goes(follower, nova, record, recorded):
    uuid = str(uuid4())
    record(claimed(uuid))
    nova.api.add(
        "instance_mappings",
        instance_uuid=uuid,
        cell_id=None,
        project_id="demo",
        queued_for_delete=True,
    )
    follower.full()
    assert recorded() == {}


def test_novas_record_keeps_the_decision_and_the_image_of_the_claim(
    follower, nova, record, recorded
):
    uuid = str(uuid4())
    record(claimed(uuid))
    nova.add_instance("cn1", uuid=uuid, display_name="web")
    follower.full()
    found = recorded()[uuid]
    assert (found.display_name, found.vm_state) == ("web", "active")
    assert (found.decision_uuid, found.image) == (str(UUID(int=1)), IMAGE)


def test_a_flavor_that_a_claim_kept_with_an_instance_is_shared_once_nova_has_it(
    follower, nova, database, record, recorded
):
    first, second = nova.add_instance("cn1"), str(uuid4())
    follower.full()
    flavor = recorded()[first].flavor
    record(claimed(second, flavor=flavor))
    assert recorded()[second].flavor == flavor
    nova.add_instance("cn1", uuid=second)
    follower.round()
    assert recorded()[second].flavor == flavor
    columns = tables.instances.c
    with database.read() as connection:
        rows = connection.execute(select(columns.flavor, columns.flavor_digest)).all()
    assert [row.flavor for row in rows] == [None, None]
    assert len({row.flavor_digest for row in rows}) == 1


def test_until_nova_compute_writes_its_name_the_chosen_host_stays(follower, nova, record, recorded):
    uuid = str(uuid4())
    record(claimed(uuid))
    nova.add_instance(None, uuid=uuid, vm_state="building")
    follower.full()
    assert recorded()[uuid].host == "cn1"
    nova.cells["one"].change("instances", {"uuid": uuid}, vm_state="error")
    follower.round()
    assert recorded()[uuid].host is None


@pytest.mark.parametrize("reading", ["full", "round"])
def test_an_instance_that_is_deleted_goes(follower, nova, recorded, reading):
    uuid = nova.add_instance("cn1")
    follower.full()
    nova.cells["one"].change("instances", {"uuid": uuid}, vm_state="deleted")
    nova.cells["one"].delete_softly("instances", uuid=uuid)
    getattr(follower, reading)()
    assert recorded() == {}


def test_an_instance_that_was_archived_goes_with_the_next_full_reading(follower, nova, recorded):
    uuid = nova.add_instance("cn1")
    follower.full()
    nova.cells["one"].remove("instances", uuid=uuid)
    follower.full()
    assert recorded() == {}


def test_the_hidden_copy_of_a_move_between_cells_does_not_count(follower, nova, recorded):
    nova.add_instance("cn1", hidden=True)
    follower.full()
    assert recorded() == {}


def test_two_changes_within_a_second_are_both_recorded(follower, nova, recorded):
    uuid = nova.add_instance("cn1")
    follower.full()
    moment = utcnow()
    for host in ("cn2", "cn3"):
        nova.cells["one"].change("instances", {"uuid": uuid}, host=host, updated_at=moment)
        follower.round()
        assert recorded()[uuid].host == host


def test_a_flavor_that_cannot_be_read_leaves_the_sizes_of_the_columns(follower, nova, recorded):
    uuid = nova.add_instance("cn1", flavor="{", vcpus=4, memory_mb=512)
    follower.full()
    assert (recorded()[uuid].flavor["vcpus"], recorded()[uuid].flavor["memory_mb"]) == (4, 512)


def test_a_resize_changes_the_flavor(follower, nova, recorded):
    uuid = nova.add_instance("cn1")
    follower.full()
    large = build_flavor_json("m1.large", vcpus=8, flavorid="4")
    nova.cells["one"].change("instance_extra", {"instance_uuid": uuid}, flavor=large)
    nova.cells["one"].change("instances", {"uuid": uuid}, instance_type_id=4)
    follower.round()
    assert (recorded()[uuid].flavor["name"], recorded()[uuid].flavor["vcpus"]) == ("m1.large", 8)


def test_an_announced_instance_is_recorded_as_its_cell_has_it(follower, nova, recorded):
    uuid = nova.add_instance("cn2")
    follower.instances_changed("cn1", [claimed(uuid, host="cn1", decision_uuid=None)])
    assert recorded()[uuid].host == "cn2"


def test_an_instance_that_left_its_host_for_another_is_recorded_there(follower, nova, recorded):
    uuid = nova.add_instance("cn1")
    follower.full()
    nova.cells["one"].change("instances", {"uuid": uuid}, host="cn2", node="cn2")
    follower.instance_deleted("cn1", uuid)
    assert recorded()[uuid].host == "cn2"
    nova.cells["one"].delete_softly("instances", uuid=uuid)
    follower.instance_deleted("cn2", uuid)
    assert recorded() == {}


def test_the_list_of_a_host_brings_what_differs_up_to_date(follower, nova, recorded):
    stays, goes = nova.add_instance("cn1"), nova.add_instance("cn1")
    follower.full()
    new = nova.add_instance("cn1")
    nova.cells["one"].delete_softly("instances", uuid=goes)
    follower.instances_synced("cn1", [stays, new])
    assert recorded().keys() == {stays, new}


def test_an_instance_that_joins_a_group_is_recorded_in_it(follower, nova, recorded):
    group, uuid = nova.add_group("pair"), nova.add_instance("cn1")
    follower.full()
    follower.round()
    nova.join(group, uuid)
    follower.round()
    assert recorded()[uuid].server_group == group


def remove_group(database, uuid):
    def remove(connection):
        server_groups.lock(connection, uuid)
        server_groups.remove(connection, uuid)

    database.write(remove)


def test_a_new_instance_is_in_no_group_that_was_deleted_after_it_was_read(
    follower, nova, database, recorded, monkeypatch
):
    kept, gone = nova.add_group("kept"), nova.add_group("gone")
    inside, outside = nova.add_instance("cn1", group=kept), nova.add_instance("cn1", group=gone)
    read = InstanceSync._groups

    def read_before_it_goes(self, uuids):
        found = read(self, uuids)
        if found.get(outside) == gone:
            remove_group(database, gone)
        return found

    monkeypatch.setattr(InstanceSync, "_groups", read_before_it_goes)
    follower.full()
    groups = {uuid: one.server_group for uuid, one in recorded().items()}
    assert groups == {inside: kept, outside: None}
    assert_invariants(database, but=NOT_CLAIMED)


def test_a_group_is_not_deleted_while_new_instances_are_recorded_in_it(
    follower, nova, database, recorded, monkeypatch
):
    group = nova.add_group("pair")
    uuid = nova.add_instance("cn1", group=group)
    deletion = Thread(target=remove_group, args=(database, group))
    keep = flavors.keep_embedded

    def keep_meanwhile(connection, texts):
        deletion.start()
        deletion.join(0.3)  # it would be over where nothing kept it waiting
        keep(connection, texts)

    monkeypatch.setattr(flavors, "keep_embedded", keep_meanwhile)
    follower.full()
    deletion.join(60)
    assert recorded()[uuid].server_group is None
    assert_invariants(database, but=NOT_CLAIMED)
