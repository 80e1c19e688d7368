# SPDX-License-Identifier: Apache-2.0
"""Instances that pin more CPUs than a host or its NUMA nodes have."""

import random
from itertools import cycle

import pytest

from placement_sched.model.hardware.numa import (
    InstanceNUMACell,
    InstanceNUMATopology,
    NUMACell,
    NUMATopology,
)
from placement_sched.model.hardware.numa_fit import fit_to_host, with_usage
from placement_sched.model.verdict import Rejection
from tests.support.invariants import run_verifier
from tests.support.scheduling import flavor, instance, report
from tests.verifier import pinning
from tests.verifier.model import Fault

pytestmark = pytest.mark.slow


def numa_cell(number, cpus, threads=1, *, shared=True):
    ids = list(range(number * 100, number * 100 + cpus))
    cores = [ids[at : at + threads] for at in range(0, cpus, threads)]
    return {
        "id": number,
        "cpuset": ids if shared else [],
        "pcpuset": ids,
        "memory": 65536,
        "pinned_cpus": [],
        "siblings": cores if threads > 1 else [],
    }


def pinned_flavor(vcpus, **specs):
    named = {f"hw:{name}": str(value) for name, value in specs.items()}
    return flavor(vcpus=vcpus, extra_specs={"hw:cpu_policy": "dedicated", **named})


def run_and_list_violations(app, database, cells, *flavors, recorded=({"node": "cn1"},), others=()):
    same = {"host": "cn1", "numa_topology": {"cells": cells}}
    reports = [report(node, **same) for node in ("cn1", *others)]
    app.post_json("/scheduler/v1/compute_nodes", reports)
    for number, (instance_flavor, where) in enumerate(zip(flavors, cycle(recorded), strict=False)):
        body = {"host": "cn1", "project_id": "p", "user_id": "u", "flavor": instance_flavor}
        app.put_json(f"/scheduler/v1/instances/{instance(number)}", body | where)
    return [
        (violation.invariant, violation.detail) for violation in run_verifier(database).violations
    ]


ALONE = {"cpu_thread_policy": "isolate"}
TWO = {"numa_nodes": 2}
#: The NUMA nodes of a host, and flavors of instances that fit there together.
FITTING = {
    "isolated": ([numa_cell(0, 8, 2)], [pinned_flavor(2, **ALONE), pinned_flavor(2, **ALONE)]),
    "isolated and others": ([numa_cell(0, 8, 2)], [pinned_flavor(3, **ALONE), pinned_flavor(2)]),
    "isolated without threads": (
        [numa_cell(0, 4)],
        [pinned_flavor(2, **ALONE), pinned_flavor(2, **ALONE)],
    ),
    "on two nodes": (
        [numa_cell(0, 4), numa_cell(1, 4)],
        [pinned_flavor(4, **TWO), pinned_flavor(2), pinned_flavor(2)],
    ),
    "one on each node": (
        [numa_cell(0, 4), numa_cell(1, 4)],
        [pinned_flavor(3), pinned_flavor(3), pinned_flavor(1), pinned_flavor(1)],
    ),
}
#: Host and flavors that do not fit together, the violated invariant, and words of the violation.
LACKING = {
    "isolated": (
        [numa_cell(0, 8, 2)],
        [pinned_flavor(2, **ALONE), pinned_flavor(3, **ALONE)],
        Fault.PINNED_CPUS,
        "pin 10 CPUs, and it has 8",
    ),
    "isolated and others": (
        [numa_cell(0, 8, 2)],
        [pinned_flavor(3, **ALONE), pinned_flavor(3)],
        Fault.PINNED_CPUS,
        "pin 9 CPUs, and it has 8",
    ),
    "three large instances on two nodes": (
        [numa_cell(0, 5), numa_cell(1, 5)],
        [pinned_flavor(3), pinned_flavor(3), pinned_flavor(3)],
        Fault.PINNED_ON_NODES,
        "have 3 NUMA nodes that withhold 3 CPUs or more each, and its own have room for 2",
    ),
    "larger than any node": (
        [numa_cell(0, 4), numa_cell(1, 4)],
        [pinned_flavor(5)],
        Fault.PINNED_ON_NODES,
        "have 1 NUMA nodes that withhold 5 CPUs or more each, and its own have room for 0",
    ),
    "two of one instance on one node": (
        [numa_cell(0, 8), numa_cell(1, 2)],
        [pinned_flavor(6, **TWO)],
        Fault.PINNED_ON_NODES,
        "have 2 NUMA nodes that withhold 3 CPUs or more each, and its own have room for 1",
    ),
    "isolated on nodes": (
        [numa_cell(0, 4, 2), numa_cell(1, 4, 2)],
        [pinned_flavor(3, **ALONE)],
        Fault.PINNED_ON_NODES,
        "have 1 NUMA nodes that withhold 6 CPUs or more each, and its own have room for 0",
    ),
}


@pytest.mark.parametrize("name", FITTING)
def test_instances_that_fit_are_not_reported(sqlite_app, sqlite_database, name):
    cells, flavors = FITTING[name]
    assert run_and_list_violations(sqlite_app, sqlite_database, cells, *flavors) == []


@pytest.mark.parametrize("name", LACKING)
def test_instances_that_do_not_fit_together_are_reported(app, database, name):
    cells, flavors, kind, words = LACKING[name]
    ((invariant, detail),) = run_and_list_violations(app, database, cells, *flavors)
    assert invariant is kind
    assert words in detail


@pytest.mark.parametrize("recorded", [({},), ({"node": None},), ({}, {"node": "cn1"})], ids=str)
def test_instance_without_node_is_on_the_only_node_of_its_host(app, database, recorded):
    flavors = [pinned_flavor(2), pinned_flavor(2)]
    assert (
        run_and_list_violations(app, database, [numa_cell(0, 4)], *flavors, recorded=recorded) == []
    )
    ((invariant, detail),) = run_and_list_violations(
        app, database, [numa_cell(0, 3)], *flavors, recorded=recorded
    )
    assert invariant is Fault.PINNED_CPUS
    assert "pin 4 CPUs, and it has 3" in detail


def test_instance_without_node_may_be_on_any_node(app, database):
    flavors, recorded = [pinned_flavor(2), pinned_flavor(2)], ({}, {"node": "cn1"})
    options = {"recorded": recorded, "others": ["cn2"]}
    assert run_and_list_violations(app, database, [numa_cell(0, 3)], *flavors, **options) == []
    assert len(run_and_list_violations(app, database, [numa_cell(0, 1)], *flavors, **options)) == 1


def random_topology(dice):
    policy = dice.choice([None, "isolate", "require", "prefer"])
    cells = tuple(
        InstanceNUMACell(
            id=number,
            cpuset=frozenset(),
            pcpuset=frozenset(range(number * 10, number * 10 + dice.randint(1, 4))),
            memory=1,
            cpu_policy="dedicated",
            cpu_thread_policy=policy,
        )
        for number in range(dice.randint(1, 3))
    )
    emulator = dice.choice([None, "isolate"])
    return InstanceNUMATopology(cells=cells, emulator_threads_policy=emulator)


@pytest.mark.parametrize("seed", range(200))
def test_sequentially_fitting_instances_have_no_excess(seed):
    dice = random.Random(seed)
    shape = [(dice.randint(1, 12), dice.randint(1, 3)) for _ in range(dice.randint(1, 4))]
    cells = []
    for number, (cpus, threads) in enumerate(shape):
        document = numa_cell(number, cpus, threads)
        sets = {name: frozenset(document[name]) for name in ("cpuset", "pcpuset")}
        cores = tuple(map(frozenset, document["siblings"]))
        cells.append(NUMACell(id=number, memory=65536, siblings=cores, **sets))
    host, cores, withheld = NUMATopology(cells), pinning.pinned_cpus_per_core(cells), {}
    for number in range(30):
        topology = random_topology(dice)
        fitted = fit_to_host(host, topology)
        if not isinstance(fitted, Rejection):
            host = with_usage(host, fitted)
            withheld[str(number)] = pinning.withheld_cpus(topology, cores)
    assert sum(map(sum, withheld.values())) <= sum(len(cell.pcpuset) for cell in cells)
    assert pinning.find_excess(cells, withheld) is None
