# SPDX-License-Identifier: Apache-2.0
"""Comparison of pinned CPUs and PCI devices with compute node reports."""

import random
from datetime import datetime

import orjson
import pytest
from sqlalchemy import select, update

from placement_sched.db import tables
from placement_sched.model.hardware.numa_fit import fit_to_host, with_usage
from placement_sched.model.hardware.pci_requests import InstancePCIRequest
from placement_sched.model.rejection import Rejection
from tests.conftest import make_settings
from tests.model.hardware.numa_nodes import (
    build_cell,
    build_host_topology,
    build_instance_cell,
    build_instance_topology,
)
from tests.support.scheduling import make_flavor, make_report, make_spec, make_uuid, select_hosts
from tests.support.statements import execute_without_foreign_keys
from tests.support.versions import LATEST_HEADERS
from tests.verifier.hardware import find_excess_cells, find_excess_devices
from tests.verifier.model import Fault
from tests.verifier.verify import assert_invariants, verify

pytestmark = pytest.mark.slow

FILTERS = ["NUMATopologyFilter", "PciPassthroughFilter"]
NIC, GPU = ({"vendor_id": "8086", "product_id": product} for product in ("1520", "9999"))
PCI_REQUESTS = {"requests": [{"count": 1, "spec": [NIC]}]}
#: Two NUMA nodes of four CPUs for pinning each.
CELLS = [
    {"id": node, "cpuset": [], "pcpuset": list(range(node * 4, node * 4 + 4)), "memory": 32768}
    for node in (0, 1)
]
NODES = tables.compute_nodes
BEFORE, AFTER = (datetime.fromisoformat(f"{year}-01-01T12:00:00") for year in (2020, 2038))


#: A flavor with pinned CPUs whose number is a text.
UNREADABLE_FLAVOR = '{"vcpus": "x", "memory_mb": 1, "extra_specs": {"hw:cpu_policy": "dedicated"}}'


def make_pinned_flavor(vcpus, **extra_specs):
    extra_specs = {f"hw:{name}": value for name, value in extra_specs.items()}
    return make_flavor(vcpus=vcpus, extra_specs={"hw:cpu_policy": "dedicated", **extra_specs})


class HostWithHardware:
    """Host cn1 with CPUs and PCI devices in a report before all decisions."""

    def __init__(self, app, database):
        self.app, self.database = app, database
        pools = [{**NIC, "dev_type": "type-PCI", "count": 4}]
        report = make_report("cn1", numa_topology={"cells": CELLS}, pci_device_pools=pools)
        app.post_json("/scheduler/v1/compute_nodes", [report])
        path = f"/placement/resource_providers/{report['uuid']}/inventories"
        inventory = {"resource_class": "PCPU", "total": 8, "resource_provider_generation": 1}
        app.post_json(path, inventory, headers=LATEST_HEADERS)
        self.change_node(updated_at=BEFORE)

    def place(self, *uuids, vcpus=3, **changes):
        flavor = make_pinned_flavor(vcpus)
        spec = make_spec(*uuids, flavor=flavor, pci_requests=PCI_REQUESTS, **changes)
        return select_hosts(self.app, spec)["decision"]

    def change_node(self, **values):
        execute_without_foreign_keys(self.database, update(NODES).values(**values))

    def change_report(self, change):
        with self.database.read() as connection:
            report = orjson.loads(connection.scalar(select(NODES.c.report)))
        change(report)
        # Parsed reports are cached by version.
        self.change_node(report=orjson.dumps(report).decode(), version=NODES.c.version + 1)

    def find_faults(self):
        return [(each.invariant, each.detail) for each in verify(self.database).violations]


@pytest.fixture
def host(settings, make_app, database):
    options = {"filter_scheduler.enabled_filters": FILTERS}
    return HostWithHardware(make_app(settings.with_overrides(options)), database)


def pin_cpus(report):
    report["numa_topology"]["cells"][1]["pinned_cpus"] = [4, 5]


def take_devices(report):
    report["pci_device_pools"][0]["count"] = 1


@pytest.mark.all_databases
def test_instances_that_fit_violate_no_invariant(host):
    host.place(make_uuid(1), make_uuid(2))
    host.place(make_uuid(3), vcpus=2)
    assert_invariants(host.database)


@pytest.mark.all_databases
def test_node_with_more_pinned_than_pinnable_cpus_is_reported(host):
    host.place(make_uuid(1), make_uuid(2))
    flavor = orjson.dumps(make_pinned_flavor(6)).decode()
    is_second = tables.instances.c.uuid == make_uuid(2)
    larger = update(tables.instances).where(is_second).values(flavor=flavor)
    execute_without_foreign_keys(host.database, larger)
    ((fault, detail),) = host.find_faults()
    assert fault is Fault.TOO_MANY_PINNED_CPUS
    pinned = {make_uuid(1): 3, make_uuid(2): 6}
    node = make_report("cn1")["uuid"]
    assert detail == f"host cn1, node {node}, pinned {pinned}, pinnable 8"


@pytest.mark.parametrize(
    ("change", "fault", "words"),
    [
        (pin_cpus, Fault.TOO_FEW_FREE_CPUS, "pinned 3, requested 2, possible 1"),
        (take_devices, Fault.TOO_FEW_FREE_DEVICES, "requested 2, free 1"),
    ],
)
def test_decision_beyond_the_amounts_of_a_report_is_reported(host, change, fault, words):
    decision = host.place(make_uuid(1), make_uuid(2))
    host.change_report(change)
    node = make_report("cn1")["uuid"]
    detail = f"decision {decision}, host cn1, node {node}, instances 2, {words}"
    assert host.find_faults() == [(fault, detail)]
    host.change_node(updated_at=AFTER)
    assert host.find_faults() == []


@pytest.mark.parametrize(
    ("table", "values", "kind"),
    [
        (tables.instances, {"flavor": "{"}, "instance"),
        (tables.instances, {"flavor": UNREADABLE_FLAVOR}, "instance"),
        (tables.instances, {"image": "[]"}, "instance"),
        (NODES, {"report": "{", "version": NODES.c.version + 1}, "compute node"),
    ],
)
def test_unreadable_record_is_reported(host, table, values, kind):
    host.place(make_uuid(1))
    execute_without_foreign_keys(host.database, update(table).values(**values))
    ((fault, detail),) = host.find_faults()
    assert fault is Fault.RECORD_UNREADABLE
    assert detail.startswith(f"kind {kind}, uuid ")


def test_decision_on_a_forced_host_is_not_compared(host):
    host.place(make_uuid(1), make_uuid(2), force_hosts=["cn1"])
    host.change_report(pin_cpus)
    host.change_report(take_devices)
    assert_invariants(host.database)


def test_decision_without_the_filters_is_not_compared(sqlite_url, make_app, sqlite_database):
    app = make_app(make_settings(sqlite_url, filter_scheduler__enabled_filters=["ComputeFilter"]))
    host = HostWithHardware(app, sqlite_database)
    host.place(make_uuid(1), make_uuid(2))
    host.change_report(pin_cpus)
    host.change_report(take_devices)
    assert_invariants(sqlite_database)


def test_pinned_cpus_without_allocations_of_pcpu_are_not_counted(sqlite_app, sqlite_database):
    report = make_report("cn1", numa_topology={"cells": CELLS})
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [report])
    for _ in range(3):
        select_hosts(sqlite_app, make_spec(flavor=make_pinned_flavor(4)))
    assert_invariants(sqlite_database)


def draw_instance_topology(dice):
    """Draw the NUMA nodes of an instance, with its policies of threads."""
    policy, emulator = dice.choice([None, "isolate", "prefer"]), dice.choice([None, "isolate"])
    cells = (
        build_instance_cell(
            number,
            pinned=range(number * 10, number * 10 + dice.randint(1, 4)),
            memory=1,
            cpu_thread_policy=policy,
        )
        for number in range(dice.randint(1, 3))
    )
    return build_instance_topology(*cells, emulator=emulator)


@pytest.mark.parametrize("seed", range(100))
def test_instances_that_fit_one_after_another_exceed_no_cells(seed):
    dice = random.Random(seed)
    cells = [
        build_cell(
            number,
            pinned=range(number * 20, number * 20 + dice.randint(1, 12)),
            siblings=[frozenset({core, core + 1}) for core in range(0, 100, 2)],
        )
        for number in range(dice.randint(1, 4))
    ]
    topology, host, count = draw_instance_topology(dice), build_host_topology(*cells), 0
    while not isinstance(fitted := fit_to_host(host, topology), Rejection):
        host, count = with_usage(host, fitted), count + 1
        assert find_excess_cells(cells, topology, count) is None
    assert find_excess_cells(cells, topology, 100) is not None


@pytest.mark.parametrize(
    ("specs", "excess"),
    [
        ([[NIC], [GPU]], None),
        ([[NIC, GPU], [GPU]], None),
        ([[NIC, GPU], [NIC, GPU], [GPU]], {"requested": 3, "free": 2}),
        ([[GPU], [NIC, GPU], [GPU]], {"requested": 2, "free": 1}),
        ([[{"vendor_id": "1234"}]], {"requested": 1, "free": 0}),
    ],
)
def test_devices_of_several_requests_are_compared_together(specs, excess):
    pools = [{**kind, "numa_node": None, "count": 1} for kind in (NIC, GPU)]
    requests = [InstancePCIRequest.from_document({"count": 1, "spec": spec}) for spec in specs]
    assert find_excess_devices(pools, requests, 1) == excess
