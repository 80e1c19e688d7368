# SPDX-License-Identifier: Apache-2.0
"""Nova's records of an instance are read from its cell."""

from datetime import timedelta
from uuid import uuid4

import pytest

from placement_sched.errors import Unavailable
from placement_sched.model.clock import utcnow
from placement_sched.nova.databases.placements import (
    ActionEvent,
    NovaMove,
    NovaRecord,
    NovaRecords,
    RecordKey,
)

REQUEST_ID = "req-1"


@pytest.fixture
def first_cell(nova):
    return nova.cells["one"]


@pytest.fixture
def read_nova_record(nova, follower):
    records = NovaRecords(follower.settings)

    def read_record_of_instance(uuid, since=None):
        key = RecordKey(uuid, REQUEST_ID, since or utcnow())
        return records([key]).get(uuid)

    yield read_record_of_instance
    records.close()


@pytest.fixture
def instance_uuid(nova):
    return nova.add_instance("cn1")


def add_migration(cell, uuid, status, dest=None, **times):
    facts = {"dest_compute": dest, "dest_node": dest, "migration_type": "migration"}
    cell.add("migrations", instance_uuid=uuid, status=status, **facts, **times)


def test_unmapped_instance_has_no_placement(read_nova_record):
    assert read_nova_record(str(uuid4())) is None


def test_host_of_instance_is_read_from_its_cell(read_nova_record, instance_uuid):
    assert read_nova_record(instance_uuid) == NovaRecord(host="cn1", node="cn1")


def test_deleted_instance_is_read(read_nova_record, instance_uuid, first_cell):
    first_cell.delete_softly("instances", uuid=instance_uuid)
    assert read_nova_record(instance_uuid).host == "cn1"


def test_instance_in_cell0_is_read_with_its_fault(nova, read_nova_record):
    uuid = str(uuid4())
    nova.cell0.add("instances", uuid=uuid)
    nova.cell0.add("instance_faults", instance_uuid=uuid, message="No valid host was found. ")
    nova.api.add("instance_mappings", instance_uuid=uuid, cell_id=1)
    record = read_nova_record(uuid)
    assert (record.is_in_cell0, record.fault) == (True, "No valid host was found. ")


def test_newest_migration_is_read(read_nova_record, instance_uuid, first_cell):
    add_migration(first_cell, instance_uuid, "error")
    add_migration(first_cell, instance_uuid, "migrating", "cn2")
    assert read_nova_record(instance_uuid).migration == NovaMove("cn2", "cn2", "migrating")


@pytest.mark.parametrize(
    "times",
    [
        {"created_at": utcnow() - timedelta(hours=1)},
        {"updated_at": utcnow() - timedelta(seconds=30)},
    ],
    ids=["begun long before", "ended before"],
)
def test_migration_of_an_earlier_request_is_ignored(
    read_nova_record, instance_uuid, first_cell, times
):
    add_migration(first_cell, instance_uuid, "confirmed", "cn2", **times)
    assert read_nova_record(instance_uuid).migration is None


def test_action_events_of_the_request_are_read_in_order(
    read_nova_record, instance_uuid, first_cell
):
    other = first_cell.add(
        "instance_actions", instance_uuid=instance_uuid, request_id="req-0", action="create"
    )
    first_cell.add("instance_actions_events", action_id=other, event="old")
    own = first_cell.add(
        "instance_actions", instance_uuid=instance_uuid, request_id=REQUEST_ID, action="migrate"
    )
    trace = "Traceback ... nova.exception_Remote.NoValidHost_Remote: No valid host was found."
    for event, result, traceback in (("a", "Error", trace), ("b", None, None)):
        first_cell.add(
            "instance_actions_events",
            action_id=own,
            event=event,
            host="ctl",
            result=result,
            traceback=traceback,
        )
    assert read_nova_record(instance_uuid).events == (
        ActionEvent("a", "ctl", "Error", is_no_valid_host=True),
        ActionEvent("b", "ctl", None),
    )


def test_unavailable_cell_does_not_affect_other_cells(nova, follower):
    here = nova.add_instance("cn1")
    gone = str(uuid4())
    number = nova.api.add(
        "cell_mappings",
        uuid=str(uuid4()),
        name="two",
        database_connection="sqlite:////nowhere/at/all.db",
        transport_url="none:///",
        disabled=False,
    )
    nova.api.add("instance_mappings", instance_uuid=gone, cell_id=number)
    records = NovaRecords(follower.settings)
    placements = records([RecordKey(one, REQUEST_ID, utcnow()) for one in (here, gone)])
    records.close()
    assert list(placements) == [here]


def test_unavailable_api_database_is_reported(follower):
    elsewhere = {"api_database.connection": "sqlite:////nowhere/at/all.db"}
    records = NovaRecords(follower.settings.with_overrides(elsewhere))
    with pytest.raises(Unavailable):
        records([RecordKey(str(uuid4()), REQUEST_ID, utcnow())])
