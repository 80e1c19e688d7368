# SPDX-License-Identifier: Apache-2.0
"""Instances for which PCI devices lack are those that no report can have counted already."""

import json
from datetime import datetime, timedelta

import pytest
from sqlalchemy import update

from placement_sched.db import tables
from tests.support.invariants import assert_invariants, break_tables, run_verifier
from tests.support.scheduling import FLAVOR, flavor, instance, report, spec
from tests.support.versions import LATEST_HEADERS
from tests.verifier.model import Fault

pytestmark = pytest.mark.slow

FIRST, SECOND, THIRD = instance(1), instance(2), instance(3)
SELECT = "/scheduler/v1/select_destinations"
NIC, GPU = ({"vendor_id": "8086", "product_id": one} for one in ("1520", "9999"))
ALIASES = [
    json.dumps({"name": "nic", **NIC}),
    json.dumps({"name": "gpu", **GPU}),
    *(json.dumps({"name": "any", "device_type": "type-PCI", **one}) for one in (NIC, GPU)),
]
#: When hosts were seen last; instances are placed a minute later, and later still.
SEEN = datetime.fromisoformat("2030-01-01T12:00:00")


def minutes(number):
    return SEEN + timedelta(minutes=number)


def asking(alias):
    return flavor(extra_specs={"pci_passthrough:alias": alias})


def pool(free, kind=NIC):
    return {**kind, "dev_type": "type-PCI", "numa_node": None, "count": free}


class Cloud:
    """Hosts cn1 and cn2 that reported free devices, and instances placed there at given times."""

    def __init__(self, app, database, *pools):
        self.app, self.database = app, database
        pools = pools or (pool(1),)
        hosts = [report(one, pci_device_pools=list(pools)) for one in ("cn1", "cn2")]
        app.post_json("/scheduler/v1/compute_nodes", hosts)
        self.seen(SEEN)

    def seen(self, at):
        values = {"updated_at": SEEN, "last_seen_up": at}
        break_tables(self.database, update(tables.compute_nodes).values(**values))

    def record(self, uuid, host, asked):
        owner = {"project_id": "p1", "user_id": "u1"}
        body = {"host": host, "node": host, **owner, "flavor": asked}
        self.app.put_json(f"/scheduler/v1/instances/{uuid}", body)

    def place(self, uuid, host, at, alias="nic:1", **changes):
        asked = spec(uuid, force_hosts=[host], **changes)
        decision = self.app.post_json(SELECT, {"request_spec": asked}).json["decision"]
        kept = json.dumps({**FLAVOR, **asking(alias)})
        request = json.dumps({**asked, "flavor": asking(alias)})
        break_tables(
            self.database,
            update(tables.instances)
            .where(tables.instances.c.uuid == uuid)
            .values(flavor=kept, created_at=at, updated_at=at),
            update(tables.consumers).where(tables.consumers.c.uuid == uuid).values(created_at=at),
            update(tables.decisions)
            .where(tables.decisions.c.uuid == decision)
            .values(created_at=at, request=request),
        )

    def move(self, uuid, host, at, **changes):
        self.app.delete(f"/placement/allocations/{uuid}", headers=LATEST_HEADERS)
        with self.database.read() as connection:
            before = connection.execute(
                tables.instances.select().where(tables.instances.c.uuid == uuid)
            ).one()
        self.place(uuid, host, at, **changes)
        change = update(tables.instances).where(tables.instances.c.uuid == uuid)
        break_tables(self.database, change.values(created_at=before.created_at))

    def found(self, **options):
        found = run_verifier(self.database, pci__alias=ALIASES, **options).violations
        assert {one.invariant for one in found} <= {Fault.PCI_DEVICES}
        return [one.detail for one in found]

    def lacks(self, *uuids):
        details = self.found()
        assert len(details) == len(uuids)
        return all(any(f"instance {one} was" in each for each in details) for one in uuids)


@pytest.fixture
def cloud(app, database):
    return Cloud(app, database)


def test_last_of_two_that_were_placed_since_the_report_lacks_a_device(cloud):
    cloud.place(FIRST, "cn1", minutes(1))
    assert cloud.lacks()
    cloud.place(SECOND, "cn1", minutes(2))
    assert cloud.lacks(SECOND)
    assert cloud.found()[0].endswith("that it requests (2 requested since, 1 free then)")
    assert cloud.found(filter_scheduler__pci_in_placement=True) == []


def test_device_of_an_instance_that_is_recorded_without_a_node_counts(cloud):
    for number, uuid in enumerate((FIRST, SECOND), 1):
        cloud.place(uuid, "cn1", minutes(number))
    break_tables(cloud.database, update(tables.instances).values(node=None))
    assert cloud.lacks(SECOND)
    cloud.app.post_json(
        "/scheduler/v1/compute_nodes", [report("of-cn1", host="cn1", pci_device_pools=[])]
    )
    assert cloud.lacks()


def test_instance_that_is_recorded_after_its_host_reported_its_device_as_taken_is_no_other(cloud):
    for uuid in (FIRST, SECOND):
        cloud.record(uuid, "cn1", asking("nic:1"))
    break_tables(cloud.database, update(tables.instances).values(created_at=minutes(3)))
    assert cloud.lacks()


def test_report_that_is_the_same_again_counts(cloud):
    cloud.place(FIRST, "cn1", minutes(1))
    cloud.seen(minutes(2))
    cloud.place(SECOND, "cn1", minutes(3))
    assert cloud.lacks()


def test_instance_that_is_moved_to_a_host_after_its_report_is_counted(cloud):
    cloud.place(FIRST, "cn1", minutes(1))
    cloud.place(SECOND, "cn2", minutes(-5))
    assert cloud.lacks()
    cloud.move(SECOND, "cn1", minutes(2))
    assert cloud.lacks(SECOND)


@pytest.mark.all_databases
def test_move_away_from_a_host_is_known_where_the_first_decision_is_no_more(cloud):
    cloud.place(FIRST, "cn1", minutes(1))
    cloud.record(SECOND, "cn2", asking("nic:1"))
    earlier = update(tables.instances).where(tables.instances.c.uuid == SECOND)
    break_tables(cloud.database, earlier.values(created_at=minutes(-9), updated_at=minutes(-9)))
    cloud.app.put_json(
        f"/placement/allocations/{SECOND}",
        {
            "allocations": {report("cn2")["uuid"]: {"resources": {"VCPU": 1}}},
            "project_id": "p1",
            "user_id": "u1",
            "consumer_type": "INSTANCE",
            "consumer_generation": None,
        },
        headers=LATEST_HEADERS,
    )
    cloud.move(SECOND, "cn1", minutes(2), ignore_hosts=["cn2"])
    assert cloud.lacks(SECOND)


def test_instance_that_is_resized_on_its_host_has_a_device_of_it_already(cloud):
    cloud.place(FIRST, "cn1", minutes(1))
    cloud.place(SECOND, "cn1", minutes(-5))
    cloud.move(SECOND, "cn1", minutes(2))
    assert cloud.lacks()


def test_instance_that_came_back_may_have_left_its_device_there(cloud):
    cloud.place(FIRST, "cn1", minutes(1))
    cloud.place(SECOND, "cn1", minutes(-5))
    cloud.move(SECOND, "cn2", minutes(-4))
    cloud.move(SECOND, "cn1", minutes(2), ignore_hosts=["cn2"])
    assert cloud.lacks()


def test_instance_of_which_no_earlier_decision_is_kept_may_have_been_there(cloud):
    cloud.place(FIRST, "cn1", minutes(1))
    cloud.place(SECOND, "cn1", minutes(2))
    older = update(tables.instances).where(tables.instances.c.uuid == SECOND)
    break_tables(cloud.database, older.values(created_at=minutes(-5)))
    assert cloud.lacks()


def test_instance_that_went_may_have_left_its_device_to_the_next(cloud):
    cloud.place(THIRD, "cn1", minutes(-5))
    cloud.place(FIRST, "cn1", minutes(1))
    cloud.place(SECOND, "cn1", minutes(2))
    assert cloud.lacks(SECOND)
    cloud.app.delete(f"/scheduler/v1/instances/{THIRD}")
    assert cloud.lacks()


def test_instance_that_came_and_went_since_the_report_left_nothing(cloud):
    for number, uuid in enumerate((FIRST, SECOND, THIRD)):
        cloud.place(uuid, "cn1", minutes(1 + number))
    assert cloud.lacks(SECOND, THIRD)
    cloud.app.delete(f"/scheduler/v1/instances/{FIRST}")
    assert cloud.lacks(THIRD)


def test_devices_are_enough_where_any_choice_of_them_is(app, database):
    cloud = Cloud(app, database, pool(1), pool(1, GPU))
    cloud.place(FIRST, "cn1", minutes(1), alias="any:1")
    cloud.place(SECOND, "cn1", minutes(2))
    assert_invariants(database)
    assert cloud.lacks()
    cloud.place(THIRD, "cn1", minutes(3), alias="gpu:1")
    assert cloud.lacks(THIRD)
