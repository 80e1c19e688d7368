# SPDX-License-Identifier: Apache-2.0
"""What nova has on record of instances is read from the cells that they are mapped to."""

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

pytestmark = pytest.mark.all_databases

REQUEST = "req-1"


@pytest.fixture
def cell(nova):
    return nova.cells["one"]


@pytest.fixture
def read(nova, follower):
    records = NovaRecords(follower.settings)

    def reading(uuid, since=None):
        wanted = RecordKey(uuid, REQUEST, since or utcnow())
        return records([wanted]).get(uuid)

    yield reading
    records.close()


@pytest.fixture
def uuid(nova):
    return nova.add_instance("cn1")


def move(cell, uuid, status, dest=None, **times):
    facts = {"dest_compute": dest, "dest_node": dest, "migration_type": "migration"}
    cell.add("migrations", instance_uuid=uuid, status=status, **facts, **times)


def test_instance_that_is_mapped_to_no_cell_has_no_record(read):
    assert read(str(uuid4())) is None


def test_instance_is_where_its_cell_has_it(read, uuid):
    assert read(uuid) == NovaRecord(host="cn1", node="cn1")


def test_deleted_instance_is_read_as_well(read, uuid, cell):
    cell.delete_softly("instances", uuid=uuid)
    assert read(uuid).host == "cn1"


def test_instance_in_cell0_is_buried_with_its_fault(nova, read):
    uuid = str(uuid4())
    nova.cell0.add("instances", uuid=uuid)
    nova.cell0.add("instance_faults", instance_uuid=uuid, message="No valid host was found. ")
    nova.api.add("instance_mappings", instance_uuid=uuid, cell_id=1)
    record = read(uuid)
    assert (record.is_buried, record.fault) == (True, "No valid host was found. ")


def test_newest_move_counts(read, uuid, cell):
    move(cell, uuid, "error")
    move(cell, uuid, "migrating", "cn2")
    assert read(uuid).migration == NovaMove("cn2", "cn2", "migrating", "migration")


@pytest.mark.parametrize(
    "times",
    [
        {"created_at": utcnow() - timedelta(hours=1)},
        {"updated_at": utcnow() - timedelta(seconds=30)},
    ],
    ids=["begun long before", "ended before"],
)
def test_move_of_an_earlier_request_does_not(read, uuid, cell, times):
    move(cell, uuid, "confirmed", "cn2", **times)
    assert read(uuid).migration is None


def test_events_are_those_of_the_request_in_their_order(read, uuid, cell):
    other = cell.add("instance_actions", instance_uuid=uuid, request_id="req-0", action="create")
    cell.add("instance_actions_events", action_id=other, event="old")
    own = cell.add("instance_actions", instance_uuid=uuid, request_id=REQUEST, action="migrate")
    trace = "Traceback ... nova.exception_Remote.NoValidHost_Remote: No valid host was found."
    for event, result, traceback in (("a", "Error", trace), ("b", None, None)):
        cell.add(
            "instance_actions_events",
            action_id=own,
            event=event,
            host="ctl",
            result=result,
            traceback=traceback,
        )
    assert read(uuid).events == (
        ActionEvent("a", "ctl", "Error", is_no_valid_host=True),
        ActionEvent("b", "ctl", None),
    )


def test_cell_that_is_away_leaves_the_others(nova, follower):
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
    found = records([RecordKey(one, REQUEST, utcnow()) for one in (here, gone)])
    records.close()
    assert list(found) == [here]


def test_api_database_that_is_away_is_said_so(follower):
    elsewhere = {"api_database.connection": "sqlite:////nowhere/at/all.db"}
    records = NovaRecords(follower.settings.with_overrides(elsewhere))
    with pytest.raises(Unavailable):
        records([RecordKey(str(uuid4()), REQUEST, utcnow())])
