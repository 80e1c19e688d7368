# SPDX-License-Identifier: Apache-2.0
"""Instances: claims stay until nova has the instance, and deletions in nova are followed."""

from datetime import datetime, timedelta
from threading import Thread
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Engine, event, select

from placement_sched.db import tables
from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.model.document import to_storable
from placement_sched.model.instance import Instance
from placement_sched.nova.sync import instances as instance_sync
from placement_sched.nova.sync.instances import InstanceSync
from placement_sched.store.checks import Invariant
from placement_sched.store.compute import flavors, instances, server_groups
from tests.nova.request_fields import REQUEST_FIELDS
from tests.support.concurrency import run_before_each_statement
from tests.support.neutron import build_neutron_client, run_neutron
from tests.support.nova_clouds import build_flavor_json
from tests.verifier.verify import assert_invariants

#: The only violation of these records.
NOT_CLAIMED_VIOLATION = {Invariant.NOT_CLAIMED}
IMAGE_DOCUMENT = {"id": str(UUID(int=7)), "properties": {"hw_architecture": "x86_64"}}


def build_claimed_instance(uuid, host="cn1", **others):
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
            "image": IMAGE_DOCUMENT,
            **others,
        },
    )


@pytest.fixture
def record_claim(database):
    def write_claim(*records, now=None):
        database.write(lambda connection: instances.record(connection, records, now or utcnow()))

    return write_claim


@pytest.mark.parametrize("database_url", ["postgresql", "mysql"], indirect=True)
def test_claim_recorded_while_nova_is_read_keeps_its_decision(
    follower, nova, database, settings, read_instances
):
    nova.add_host("cn1")
    follower.sync_all()
    uuids = []

    def claim_instance():
        record = build_claimed_instance(uuids[-1])
        concurrent_writer.write(lambda connection: instances.record(connection, [record], utcnow()))

    def read_new_instance():
        uuids.append(nova.add_instance("cn1"))
        follower.read_instances(uuids[-1:])

    with Database(settings) as concurrent_writer:
        for _ in run_before_each_statement(database, read_new_instance, claim_instance):
            assert read_instances()[uuids[-1]].decision_uuid == str(UUID(int=1))
    assert len(uuids) > 3


@pytest.mark.all_databases
def test_claim_unknown_to_cells_stays_for_ten_minutes(follower, nova, record_claim, read_instances):
    young, old = str(uuid4()), str(uuid4())
    record_claim(build_claimed_instance(young))
    record_claim(build_claimed_instance(old), now=utcnow() - timedelta(seconds=700))
    follower.sync_all()
    assert read_instances().keys() == {young}


def test_unclaimed_instance_unknown_to_cells_is_removed(follower, record_claim, read_instances):
    record_claim(build_claimed_instance(str(uuid4()), decision_uuid=None))
    follower.sync_all()
    assert read_instances() == {}


def test_claim_of_an_instance_in_cell0_is_removed_by_the_next_round(
    follower, nova, record_claim, read_instances
):
    uuid = str(uuid4())
    follower.sync_all()
    record_claim(build_claimed_instance(uuid))
    nova.cell0.add("instances", uuid=uuid, vm_state="error", hidden=False)
    nova.api.add(
        "instance_mappings",
        instance_uuid=uuid,
        cell_id=1,
        project_id="demo",
        queued_for_delete=False,
    )
    follower.sync_changes()
    assert read_instances() == {}


def test_claim_of_a_deleted_server_is_removed(follower, nova, record_claim, read_instances):
    uuid = str(uuid4())
    record_claim(build_claimed_instance(uuid))
    nova.api.add(
        "instance_mappings",
        instance_uuid=uuid,
        cell_id=None,
        project_id="demo",
        queued_for_delete=True,
    )
    follower.sync_all()
    assert read_instances() == {}


@pytest.mark.all_databases
def test_synced_instance_keeps_decision_and_image_of_the_claim(
    follower, nova, record_claim, read_instances
):
    uuid = str(uuid4())
    record_claim(build_claimed_instance(uuid))
    nova.add_instance("cn1", uuid=uuid, display_name="web")
    follower.sync_all()
    record = read_instances()[uuid]
    assert (record.display_name, record.vm_state) == ("web", "active")
    assert (record.decision_uuid, record.image) == (str(UUID(int=1)), IMAGE_DOCUMENT)


@pytest.mark.all_databases
def test_flavor_of_a_claim_is_shared_after_the_sync(
    follower, nova, database, record_claim, read_instances
):
    first, second = nova.add_instance("cn1"), str(uuid4())
    follower.sync_all()
    flavor = read_instances()[first].flavor
    record_claim(build_claimed_instance(second, flavor=flavor))
    assert read_instances()[second].flavor == flavor
    nova.add_instance("cn1", uuid=second)
    follower.sync_changes()
    assert read_instances()[second].flavor == flavor
    columns = tables.instances.c
    with database.read() as connection:
        rows = connection.execute(select(columns.flavor, columns.flavor_digest)).all()
    assert [row.flavor for row in rows] == [None, None]
    assert len({row.flavor_digest for row in rows}) == 1


def test_chosen_host_stays_until_nova_compute_sets_the_host(
    follower, nova, record_claim, read_instances
):
    uuid = str(uuid4())
    record_claim(build_claimed_instance(uuid))
    nova.add_instance(None, uuid=uuid, vm_state="building")
    follower.sync_all()
    assert read_instances()[uuid].host == "cn1"
    nova.cells["one"].change("instances", {"uuid": uuid}, vm_state="error")
    follower.sync_changes()
    assert read_instances()[uuid].host is None


#: The two tables of metadata, and the fields with the same meaning.
FIELDS_BY_METADATA_TABLE = {
    "instance_metadata": "metadata",
    "instance_system_metadata": "system_metadata",
}


def set_metadata(nova, uuid, table, **values):
    """Add keys and update the instance's time, as nova does."""
    cell = nova.cells["one"]
    for key, value in values.items():
        cell.add(table, instance_uuid=uuid, key=key, value=value)
    cell.change("instances", {"uuid": uuid}, updated_at=utcnow())


@pytest.fixture
def read_metadata(database):
    def read_metadata(uuid):
        with database.read() as connection:
            return instances.MetadataReader(connection, [uuid]).read(uuid)

    return read_metadata


@pytest.fixture
def recorded_statements():
    """Return a list that collects the SQL statements of all databases."""
    seen = []

    def record_call(_connection, _cursor, statement, *_rest):
        seen.append(statement)

    event.listen(Engine, "before_cursor_execute", record_call)
    yield seen
    event.remove(Engine, "before_cursor_execute", record_call)


@pytest.mark.all_databases
@pytest.mark.parametrize("reading", ["sync_all", "sync_changes"])
def test_metadata_and_times_are_recorded(follower, nova, read_instances, read_metadata, reading):
    follower.sync_all()
    created, launched = datetime(2026, 1, 2, 3, 4, 5), datetime(2026, 1, 2, 3, 4, 9)
    uuid = nova.add_instance("cn1", created_at=created, launched_at=launched)
    set_metadata(nova, uuid, "instance_metadata", role="Datenbank für alle", tier="1")
    set_metadata(nova, uuid, "instance_system_metadata", preemptible="true", empty=None)
    getattr(follower, reading)()
    instance = read_instances()[uuid]
    assert (instance.created_at, instance.launched_at) == (created, launched)
    expected = ({"role": "Datenbank für alle", "tier": "1"}, {"preemptible": "true", "empty": None})
    assert read_metadata(uuid) == expected
    assert follower.compare().differing == 0


@pytest.mark.all_databases
@pytest.mark.parametrize("table", FIELDS_BY_METADATA_TABLE)
def test_changed_and_deleted_metadata_are_recorded(follower, nova, read_metadata, table):
    uuid, other = nova.add_instance("cn1"), nova.add_instance("cn1")
    set_metadata(nova, uuid, table, changed="old", deleted="x")
    set_metadata(nova, other, table, kept="y")
    follower.sync_all()
    cell = nova.cells["one"]
    cell.change(table, {"instance_uuid": uuid, "key": "changed"}, value="new")
    cell.delete_softly(table, instance_uuid=uuid, key="deleted")
    cell.change("instances", {"uuid": uuid}, updated_at=utcnow())
    (difference,) = follower.compare().differences
    assert (difference.kind, difference.fields) == ("changed", (FIELDS_BY_METADATA_TABLE[table],))
    assert follower.sync_changes().counts["instances"].changed == 1
    assert getattr(read_metadata(uuid), FIELDS_BY_METADATA_TABLE[table]) == {"changed": "new"}
    assert getattr(read_metadata(other), FIELDS_BY_METADATA_TABLE[table]) == {"kept": "y"}
    cell.delete_softly(table, instance_uuid=uuid, key="changed")
    follower.sync_all()
    assert read_metadata(uuid) == ({}, {})


@pytest.mark.all_databases
@pytest.mark.parametrize("reading", ["sync_all", "sync_changes"])
def test_metadata_take_two_statements_for_all_instances(
    follower, nova, recorded_statements, reading
):
    for _ in range(3):
        uuid = nova.add_instance("cn1")
        set_metadata(nova, uuid, "instance_metadata", role="web")
    recorded_statements.clear()
    getattr(follower, reading)()
    for table in FIELDS_BY_METADATA_TABLE:
        assert len([sql for sql in recorded_statements if f"FROM {table}" in sql]) == 1


def test_too_long_metadata_are_reported_and_left_out(follower, nova, read_metadata, monkeypatch):
    monkeypatch.setattr(instance_sync, "MAX_METADATA_CHARACTERS", 1000)
    uuid = nova.add_instance("cn1")
    keys = {f"key{number}": "x" * 200 for number in range(5)}
    set_metadata(nova, uuid, "instance_metadata", **keys)
    set_metadata(nova, uuid, "instance_system_metadata", preemptible="true")
    (issue,) = follower.sync_all().issues
    assert "metadata has more than 1000 characters" in issue.reason
    assert read_metadata(uuid) == ({}, {"preemptible": "true"})
    assert follower.compare().differing == 0


def test_claimed_instance_gets_the_times_of_nova(follower, nova, record_claim, read_instances):
    uuid, created = str(uuid4()), utcnow().replace(microsecond=0) - timedelta(minutes=3)
    record_claim(build_claimed_instance(uuid))
    nova.add_instance("cn1", uuid=uuid, created_at=created)
    follower.sync_all()
    record = read_instances()[uuid]
    assert (record.created_at, record.launched_at) == (created, None)
    launched = created + timedelta(seconds=9)
    nova.cells["one"].change("instances", {"uuid": uuid}, launched_at=launched)
    follower.sync_changes()
    assert read_instances()[uuid].launched_at == launched
    assert follower.compare().differing == 0


@pytest.mark.all_databases
def test_new_claim_keeps_metadata_and_times(
    follower, nova, record_claim, read_instances, read_metadata
):
    uuid = nova.add_instance("cn1", launched_at=utcnow().replace(microsecond=0))
    set_metadata(nova, uuid, "instance_metadata", role="web")
    follower.sync_all()
    before = read_instances()[uuid]
    record_claim(build_claimed_instance(uuid, host="cn2"))
    after = read_instances()[uuid]
    assert (after.host, after.created_at) == ("cn2", before.created_at)
    assert after.launched_at == before.launched_at is not None
    assert read_metadata(uuid).metadata == {"role": "web"}


@pytest.mark.all_databases
@pytest.mark.parametrize("reading", ["sync_all", "sync_changes"])
def test_deleted_instance_is_removed(follower, nova, read_instances, reading):
    uuid = nova.add_instance("cn1")
    follower.sync_all()
    nova.cells["one"].change("instances", {"uuid": uuid}, vm_state="deleted")
    nova.cells["one"].delete_softly("instances", uuid=uuid)
    getattr(follower, reading)()
    assert read_instances() == {}


def test_archived_instance_is_removed_by_the_next_full_sync(follower, nova, read_instances):
    uuid = nova.add_instance("cn1")
    follower.sync_all()
    nova.cells["one"].remove("instances", uuid=uuid)
    follower.sync_all()
    assert read_instances() == {}


def test_hidden_copy_of_a_cross_cell_resize_is_ignored(follower, nova, read_instances):
    nova.add_instance("cn1", hidden=True)
    follower.sync_all()
    assert read_instances() == {}


def test_second_change_of_an_instance_within_a_second_is_recorded(follower, nova, read_instances):
    uuid = nova.add_instance("cn1")
    follower.sync_all()
    moment = utcnow()
    for host in ("cn2", "cn3"):
        nova.cells["one"].change("instances", {"uuid": uuid}, host=host, updated_at=moment)
        follower.sync_changes()
        assert read_instances()[uuid].host == host


def test_unreadable_flavor_falls_back_to_instance_columns(follower, nova, read_instances):
    uuid = nova.add_instance("cn1", flavor="{", vcpus=4, memory_mb=512)
    follower.sync_all()
    flavor = read_instances()[uuid].flavor
    assert (flavor["vcpus"], flavor["memory_mb"]) == (4, 512)


@pytest.mark.all_databases
def test_resize_in_nova_changes_the_recorded_flavor(follower, nova, read_instances):
    uuid = nova.add_instance("cn1")
    follower.sync_all()
    large = build_flavor_json("m1.large", vcpus=8, flavorid="4")
    nova.cells["one"].change("instance_extra", {"instance_uuid": uuid}, flavor=large)
    nova.cells["one"].change("instances", {"uuid": uuid}, instance_type_id=4)
    follower.sync_changes()
    flavor = read_instances()[uuid].flavor
    assert (flavor["name"], flavor["vcpus"]) == ("m1.large", 8)


def test_moved_instance_is_recorded_on_its_new_host(follower, nova, read_instances):
    uuid = nova.add_instance("cn1")
    follower.sync_all()
    nova.cells["one"].change("instances", {"uuid": uuid}, host="cn2", node="cn2")
    follower.read_instances([uuid])
    assert read_instances()[uuid].host == "cn2"
    nova.cells["one"].delete_softly("instances", uuid=uuid)
    follower.read_instances([uuid])
    assert read_instances() == {}


@pytest.mark.all_databases
def test_instance_list_of_a_host_updates_differing_records(follower, nova, read_instances):
    stays, goes = nova.add_instance("cn1"), nova.add_instance("cn1")
    follower.sync_all()
    new = nova.add_instance("cn1")
    nova.cells["one"].delete_softly("instances", uuid=goes)
    follower.compare_instances("cn1", [stays, new])
    assert read_instances().keys() == {stays, new}


def test_instance_that_joins_a_group_is_recorded_as_member(follower, nova, read_instances):
    group, uuid = nova.add_group("pair"), nova.add_instance("cn1")
    follower.sync_all()
    follower.sync_changes()
    nova.join(group, uuid)
    follower.sync_changes()
    assert read_instances()[uuid].server_group == group


def remove_group(database, uuid):
    def delete_group_rows(connection):
        server_groups.lock(connection, uuid)
        server_groups.remove(connection, uuid)

    database.write(delete_group_rows)


@pytest.mark.all_databases
def test_new_instance_does_not_join_a_group_deleted_during_the_sync(
    follower, nova, database, read_instances, monkeypatch
):
    kept, gone = nova.add_group("kept"), nova.add_group("gone")
    inside, outside = nova.add_instance("cn1", group=kept), nova.add_instance("cn1", group=gone)
    read = InstanceSync._map_groups

    def delete_group_after_read(self, uuids):
        rows = read(self, uuids)
        if rows.get(outside) == gone:
            remove_group(database, gone)
        return rows

    monkeypatch.setattr(InstanceSync, "_map_groups", delete_group_after_read)
    follower.sync_all()
    groups = {uuid: one.server_group for uuid, one in read_instances().items()}
    assert groups == {inside: kept, outside: None}
    assert_invariants(database, but=NOT_CLAIMED_VIOLATION)


@pytest.mark.all_databases
def test_group_deletion_waits_for_recording_of_members(
    follower, nova, database, read_instances, monkeypatch
):
    group = nova.add_group("pair")
    uuid = nova.add_instance("cn1", group=group)
    deletion = Thread(target=remove_group, args=(database, group))
    store = flavors.store_embedded

    def store_during_deletion(connection, texts):
        deletion.start()
        deletion.join(0.3)  # without a lock the deletion would have ended
        store(connection, texts)

    monkeypatch.setattr(flavors, "store_embedded", store_during_deletion)
    follower.sync_all()
    deletion.join(60)
    assert read_instances()[uuid].server_group is None
    assert_invariants(database, but=NOT_CLAIMED_VIOLATION)


RECORDED_REQUEST = {
    "availability_zone": "az1",
    "scheduler_hints": {"different_host": [str(UUID(int=3))]},
    "is_bfv": False,
    "numa_topology": None,
    "pci_requests": {"requests": []},
    "flavor": {"name": "m1.small"},
}
RECORDED_IMAGE = {
    "id": str(UUID(int=7)),
    "min_ram": 0,
    "properties": {"trait:CUSTOM_LICENSED": "required"},
}


@pytest.fixture
def read_request(database):
    def read_request(uuid):
        with database.read() as connection:
            return instances.map_requests(connection, [uuid]).get(uuid)

    return read_request


@pytest.mark.all_databases
@pytest.mark.parametrize("reading", ["sync_all", "sync_changes"])
def test_request_and_image_of_an_instance_are_recorded(
    follower, nova, read_instances, read_request, reading
):
    follower.sync_all()
    uuid = nova.add_instance("cn1")
    nova.add_request_spec(uuid, **REQUEST_FIELDS)
    nova.add_root_disk(uuid, "local")
    getattr(follower, reading)()
    assert read_request(uuid) == RECORDED_REQUEST
    assert read_instances()[uuid].image == RECORDED_IMAGE
    assert follower.compare().differing == 0


@pytest.mark.all_databases
def test_sync_completes_a_record_of_an_older_release(
    follower, nova, database, read_instances, read_request
):
    uuid = nova.add_instance("cn1")
    nova.add_request_spec(uuid, **REQUEST_FIELDS)
    follower.sync_all()
    image = to_storable({"id": str(UUID(int=7))})
    database.write(
        lambda connection: connection.execute(
            tables.instances.update().values(request=None, image=image)
        )
    )
    (difference,) = follower.compare().differences
    assert difference.fields == ("request",)
    follower.sync_all()
    assert read_request(uuid) == RECORDED_REQUEST
    assert read_instances()[uuid].image == RECORDED_IMAGE


def test_claim_keeps_the_parts_of_its_request_that_nova_does_not_store(
    follower, nova, record_claim, read_request
):
    uuid = str(uuid4())
    ports = [{"requester_id": str(UUID(int=9)), "resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 1}}]
    request = {"availability_zone": None, "scheduler_hints": {}, "requested_resources": ports}
    follower.sync_all()
    record_claim(build_claimed_instance(uuid, request=request))
    nova.add_instance("cn1", uuid=uuid)
    nova.add_request_spec(uuid, **REQUEST_FIELDS)
    follower.sync_changes()
    assert read_request(uuid) == request
    # Unshelving may change the zone, and changes the host.
    nova.cells["one"].change("instances", {"uuid": uuid}, host="cn2")
    follower.sync_changes()
    assert read_request(uuid) == {**RECORDED_REQUEST, "requested_resources": ports}


@pytest.mark.all_databases
def test_instance_without_a_request_spec_has_root_disk_and_image_of_its_cell(
    follower, nova, read_instances, read_request
):
    local, volume, image_volume = (
        nova.add_instance("cn1"),
        nova.add_instance("cn1", image_ref=""),
        nova.add_instance("cn1"),
    )
    for uuid, destination in ((local, "local"), (volume, "volume"), (image_volume, "volume")):
        nova.add_root_disk(uuid, destination)
        metadata = {"image_min_ram": "64", "image_base_image_ref": "x", "image_hw_cpu_cores": "2"}
        set_metadata(nova, uuid, "instance_system_metadata", owner="x", **metadata)
    unknown = nova.add_instance("cn1")
    follower.sync_all()
    assert [read_request(uuid) for uuid in (local, volume, image_volume, unknown)] == [
        {"is_bfv": False},
        {"is_bfv": True},
        {"is_bfv": True},
        {"is_bfv": False},
    ]
    image = {"min_ram": 64, "properties": {"hw_cpu_cores": "2"}}
    images = [read_instances()[uuid].image for uuid in (local, volume, unknown)]
    assert images == [{"id": str(UUID(int=7)), **image}, image, {"id": str(UUID(int=7))}]


def test_unreadable_request_spec_is_reported(follower, nova, read_request):
    uuid = nova.add_instance("cn1")
    nova.api.add("request_specs", instance_uuid=uuid, spec="{")
    (issue,) = follower.sync_all().issues
    assert issue.reason == "its request spec in nova is not readable: it is not JSON"
    assert read_request(uuid) == {"is_bfv": False}
    (repeated,) = follower.sync_all().issues
    assert repeated == issue
    nova.api.remove("request_specs", instance_uuid=uuid)
    nova.add_request_spec(uuid, **REQUEST_FIELDS)
    assert not follower.sync_all().issues
    assert read_request(uuid) == RECORDED_REQUEST


def test_request_specs_are_read_once(follower, nova, recorded_statements):
    for _ in range(3):
        nova.add_request_spec(nova.add_instance("cn1"), **REQUEST_FIELDS)
    follower.sync_all()
    assert len([sql for sql in recorded_statements if "FROM request_specs" in sql]) == 1
    recorded_statements.clear()
    follower.sync_all()
    tables_of_requests = ("FROM request_specs", "FROM block_device_mapping")
    assert not [sql for sql in recorded_statements for name in tables_of_requests if name in sql]


def test_port_resources_come_from_neutron(make_follower, nova, read_request, monkeypatch):
    uuid = nova.add_instance("cn1")
    nova.add_request_spec(uuid, **REQUEST_FIELDS)
    group = {"requester_id": "port", "resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 5}}
    with run_neutron() as neutron:
        client = build_neutron_client(neutron.url)
        monkeypatch.setattr(instance_sync, "create_neutron_client", lambda _: client)
        follower = make_follower(nova)
        neutron.failure = ("503 Service Unavailable", {})
        (issue,) = follower.sync_all().issues
        assert (issue.place, "port resources are not read" in issue.reason) == ("neutron", True)
        assert read_request(uuid) == RECORDED_REQUEST
        neutron.failure = None
        request = {"resources": group["resources"]}
        neutron.add_port("port", "net", device_id=uuid, resource_request=request)
        nova.cells["one"].change("instances", {"uuid": uuid}, host="cn2")
        follower.sync_changes()
    ports = [{**group, "required_traits": []}]
    assert read_request(uuid) == {**RECORDED_REQUEST, "requested_resources": ports}


def test_full_sync_completes_port_resources_if_neutron_is_configured_later(
    make_follower, nova, read_request, monkeypatch, recorded_statements
):
    uuid = nova.add_instance("cn1")
    nova.add_request_spec(uuid, **REQUEST_FIELDS)
    make_follower(nova).sync_all()
    assert read_request(uuid) == RECORDED_REQUEST
    with run_neutron() as neutron:
        client = build_neutron_client(neutron.url)
        monkeypatch.setattr(instance_sync, "create_neutron_client", lambda _: client)
        follower = make_follower(nova)
        neutron.failure = ("503 Service Unavailable", {})
        assert follower.sync_all().issues
        neutron.failure = None
        neutron.add_port("port", "net", device_id=uuid, resource_request={"resources": {"X": 5}})
        follower.sync_all()
        ports = [{"requester_id": "port", "resources": {"X": 5}, "required_traits": []}]
        assert read_request(uuid) == {**RECORDED_REQUEST, "requested_resources": ports}
        recorded_statements.clear()
        follower.sync_all()
        assert not [sql for sql in recorded_statements if "FROM request_specs" in sql]
