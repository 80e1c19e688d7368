# SPDX-License-Identifier: Apache-2.0
"""PCI devices of instances that were claimed after the last report of their host."""

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
NIC, GPU = ({"vendor_id": "8086", "product_id": product} for product in ("1520", "9999"))
ALIASES = [
    json.dumps({"name": "nic", **NIC}),
    json.dumps({"name": "gpu", **GPU}),
    *(json.dumps({"name": "any", "device_type": "type-PCI", **device}) for device in (NIC, GPU)),
]
#: Time of the hosts' last report.
SEEN = datetime.fromisoformat("2030-01-01T12:00:00")


def minutes_after_report(number):
    return SEEN + timedelta(minutes=number)


def flavor_with_device(alias):
    return flavor(extra_specs={"pci_passthrough:alias": alias})


def device_pool(free, kind=NIC):
    return {**kind, "dev_type": "type-PCI", "numa_node": None, "count": free}


class Cloud:
    """Hosts cn1 and cn2 that reported free devices, and instances placed there at given times."""

    def __init__(self, app, database, *pools):
        self.app, self.database = app, database
        pools = pools or (device_pool(1),)
        hosts = [report(host, pci_device_pools=list(pools)) for host in ("cn1", "cn2")]
        app.post_json("/scheduler/v1/compute_nodes", hosts)
        self.report_host(SEEN)

    def report_host(self, at):
        values = {"updated_at": SEEN, "last_seen_up": at}
        break_tables(self.database, update(tables.compute_nodes).values(**values))

    def record(self, uuid, host, instance_flavor):
        owner = {"project_id": "p1", "user_id": "u1"}
        body = {"host": host, "node": host, **owner, "flavor": instance_flavor}
        self.app.put_json(f"/scheduler/v1/instances/{uuid}", body)

    def place(self, uuid, host, at, alias="nic:1", **changes):
        request_spec = spec(uuid, force_hosts=[host], **changes)
        decision = self.app.post_json(SELECT, {"request_spec": request_spec}).json["decision"]
        kept = json.dumps({**FLAVOR, **flavor_with_device(alias)})
        request = json.dumps({**request_spec, "flavor": flavor_with_device(alias)})
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

    def move_instance(self, uuid, host, at, **changes):
        self.app.delete(f"/placement/allocations/{uuid}", headers=LATEST_HEADERS)
        with self.database.read() as connection:
            before = connection.execute(
                tables.instances.select().where(tables.instances.c.uuid == uuid)
            ).one()
        self.place(uuid, host, at, **changes)
        change = update(tables.instances).where(tables.instances.c.uuid == uuid)
        break_tables(self.database, change.values(created_at=before.created_at))

    def device_violations(self, **options):
        violations = run_verifier(self.database, pci__alias=ALIASES, **options).violations
        assert {violation.invariant for violation in violations} <= {Fault.PCI_DEVICES}
        return [violation.detail for violation in violations]

    def is_device_missing(self, *uuids):
        details = self.device_violations()
        assert len(details) == len(uuids)
        return all(any(f"instance {uuid} was" in detail for detail in details) for uuid in uuids)


@pytest.fixture
def cloud(app, database):
    return Cloud(app, database)


def test_last_instance_placed_after_the_report_lacks_a_device(cloud):
    cloud.place(FIRST, "cn1", minutes_after_report(1))
    assert cloud.is_device_missing()
    cloud.place(SECOND, "cn1", minutes_after_report(2))
    assert cloud.is_device_missing(SECOND)
    assert cloud.device_violations()[0].endswith(
        "that it requests (2 requested since, 1 free then)"
    )
    assert cloud.device_violations(filter_scheduler__pci_in_placement=True) == []


def test_device_of_an_instance_without_node_counts(cloud):
    for number, uuid in enumerate((FIRST, SECOND), 1):
        cloud.place(uuid, "cn1", minutes_after_report(number))
    break_tables(cloud.database, update(tables.instances).values(node=None))
    assert cloud.is_device_missing(SECOND)
    cloud.app.post_json(
        "/scheduler/v1/compute_nodes", [report("of-cn1", host="cn1", pci_device_pools=[])]
    )
    assert cloud.is_device_missing()


def test_instance_recorded_after_the_report_is_counted_once(cloud):
    for uuid in (FIRST, SECOND):
        cloud.record(uuid, "cn1", flavor_with_device("nic:1"))
    break_tables(
        cloud.database, update(tables.instances).values(created_at=minutes_after_report(3))
    )
    assert cloud.is_device_missing()


def test_repeated_equal_report_counts(cloud):
    cloud.place(FIRST, "cn1", minutes_after_report(1))
    cloud.report_host(minutes_after_report(2))
    cloud.place(SECOND, "cn1", minutes_after_report(3))
    assert cloud.is_device_missing()


def test_instance_moved_after_the_report_is_counted(cloud):
    cloud.place(FIRST, "cn1", minutes_after_report(1))
    cloud.place(SECOND, "cn2", minutes_after_report(-5))
    assert cloud.is_device_missing()
    cloud.move_instance(SECOND, "cn1", minutes_after_report(2))
    assert cloud.is_device_missing(SECOND)


@pytest.mark.all_databases
def test_move_is_detected_without_the_first_decision(cloud):
    cloud.place(FIRST, "cn1", minutes_after_report(1))
    cloud.record(SECOND, "cn2", flavor_with_device("nic:1"))
    earlier = update(tables.instances).where(tables.instances.c.uuid == SECOND)
    break_tables(
        cloud.database,
        earlier.values(created_at=minutes_after_report(-9), updated_at=minutes_after_report(-9)),
    )
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
    cloud.move_instance(SECOND, "cn1", minutes_after_report(2), ignore_hosts=["cn2"])
    assert cloud.is_device_missing(SECOND)


def test_resized_instance_already_has_its_device(cloud):
    cloud.place(FIRST, "cn1", minutes_after_report(1))
    cloud.place(SECOND, "cn1", minutes_after_report(-5))
    cloud.move_instance(SECOND, "cn1", minutes_after_report(2))
    assert cloud.is_device_missing()


def test_returned_instance_may_keep_its_device(cloud):
    cloud.place(FIRST, "cn1", minutes_after_report(1))
    cloud.place(SECOND, "cn1", minutes_after_report(-5))
    cloud.move_instance(SECOND, "cn2", minutes_after_report(-4))
    cloud.move_instance(SECOND, "cn1", minutes_after_report(2), ignore_hosts=["cn2"])
    assert cloud.is_device_missing()


def test_instance_without_earlier_decision_may_have_a_device(cloud):
    cloud.place(FIRST, "cn1", minutes_after_report(1))
    cloud.place(SECOND, "cn1", minutes_after_report(2))
    older = update(tables.instances).where(tables.instances.c.uuid == SECOND)
    break_tables(cloud.database, older.values(created_at=minutes_after_report(-5)))
    assert cloud.is_device_missing()


def test_device_of_a_moved_instance_may_be_reused(cloud):
    cloud.place(THIRD, "cn1", minutes_after_report(-5))
    cloud.place(FIRST, "cn1", minutes_after_report(1))
    cloud.place(SECOND, "cn1", minutes_after_report(2))
    assert cloud.is_device_missing(SECOND)
    cloud.app.delete(f"/scheduler/v1/instances/{THIRD}")
    assert cloud.is_device_missing()


def test_instance_gone_since_the_report_leaves_no_device(cloud):
    for number, uuid in enumerate((FIRST, SECOND, THIRD)):
        cloud.place(uuid, "cn1", minutes_after_report(1 + number))
    assert cloud.is_device_missing(SECOND, THIRD)
    cloud.app.delete(f"/scheduler/v1/instances/{FIRST}")
    assert cloud.is_device_missing(THIRD)


def test_devices_suffice_if_any_assignment_fits(app, database):
    cloud = Cloud(app, database, device_pool(1), device_pool(1, GPU))
    cloud.place(FIRST, "cn1", minutes_after_report(1), alias="any:1")
    cloud.place(SECOND, "cn1", minutes_after_report(2))
    assert_invariants(database)
    assert cloud.is_device_missing()
    cloud.place(THIRD, "cn1", minutes_after_report(3), alias="gpu:1")
    assert cloud.is_device_missing(THIRD)
