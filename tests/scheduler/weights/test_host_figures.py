# SPDX-License-Identifier: Apache-2.0
"""Weighers by a figure of the host, as in nova 34, and the multipliers of all weighers."""

from dataclasses import asdict

import pytest

from placement_sched.errors import Invalid
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.weighing import run_weighers
from placement_sched.scheduler.weights import all_weighers
from placement_sched.scheduler.weights.affinity import (
    ServerGroupSoftAffinityWeigher,
    ServerGroupSoftAntiAffinityWeigher,
)
from placement_sched.scheduler.weights.compute import BuildFailureWeigher
from placement_sched.scheduler.weights.cpu import CPUWeigher
from placement_sched.scheduler.weights.disk import DiskWeigher
from placement_sched.scheduler.weights.hypervisor_version import HypervisorVersionWeigher
from placement_sched.scheduler.weights.io_ops import IoOpsWeigher
from placement_sched.scheduler.weights.num_instances import NumInstancesWeigher
from placement_sched.scheduler.weights.pci import PCIWeigher
from placement_sched.scheduler.weights.ram import RAMWeigher
from placement_sched.scheduler.weights.stranded_resources import StrandedResourcesWeigher
from tests.scheduler.weights.weighing import find_raw_weights, run_weigher, weigh_hosts
from tests.support.explanations import weight
from tests.support.states import build_aggregates, build_host_state, build_spec, settings_with


def build_hosts(**figures):
    """Return hosts cn1, cn2 and cn3 with these figures."""
    rows = zip(*figures.values(), strict=True)
    return [
        build_host_state(f"cn{number}", **dict(zip(figures, row, strict=True)))
        for number, row in enumerate(rows, start=1)
    ]


#: 7, 14 and -5 CPUs are free.
FREE_CPUS = build_hosts(
    vcpus_total=(8, 4, 4), vcpus_used=(1, 2, 9), cpu_allocation_ratio=(1.0, 4.0, 1.0)
)


@pytest.mark.parametrize(
    ("kind", "hosts"),
    [
        (RAMWeigher, build_hosts(free_ram_mb=(1024, 2048, -512))),
        (DiskWeigher, build_hosts(free_disk_mb=(1024, 2048, -512))),
        (CPUWeigher, FREE_CPUS),
        (HypervisorVersionWeigher, build_hosts(hypervisor_version=(7002000, 8002000, 6002000))),
        (NumInstancesWeigher, build_hosts(num_instances=(5, 7, 3))),
        (IoOpsWeigher, build_hosts(num_io_ops=(2, 4, -3))),
        (BuildFailureWeigher, build_hosts(failed_builds=(2, 4, 0))),
    ],
)
def test_sign_of_the_multiplier_prefers_hosts_with_large_or_small_values(kind, hosts):
    option, sign = f"filter_scheduler__{kind.weight_option.dest}", -1 if kind.is_penalty else 1
    weights = weigh_hosts(kind, hosts, **{option: 2.0 * sign})
    assert weights == [("cn2", 2.0), ("cn1", 1.0), ("cn3", 0.0)]
    weights = weigh_hosts(kind, hosts, **{option: -2.0 * sign})
    assert weights == [("cn3", 0.0), ("cn1", -1.0), ("cn2", -2.0)]


@pytest.mark.parametrize("kind", [RAMWeigher, DiskWeigher, CPUWeigher, HypervisorVersionWeigher])
def test_raw_weight_of_an_empty_host_state_is_0(kind):
    assert find_raw_weights(kind, [HostState("cn0", "cn0"), build_host_state("cn1")])["cn0"] == 0


def test_default_multipliers_of_weighers_have_the_signs_and_sizes_of_nova():
    settings = settings_with()
    kinds = {}
    for kind in all_weighers():
        multiplier = kind.with_settings(settings).configured_multiplier
        kinds.setdefault(multiplier, set()).add(kind.__name__.removesuffix("Weigher"))
    assert kinds == {
        1000000.0: {"CrossCell"},
        1000.0: {
            "PreferredTenant",
            "RequiredAggregatesByTrait",
            "TopologySpread",
            "TraitPreference",
        },
        1.0: {
            *("CPU", "Disk", "HypervisorVersion", "Metrics", "PCI", "RAM"),
            *("ServerGroupSoftAffinity", "ServerGroupSoftAntiAffinity"),
        },
        0.0: {"ImageProperties", "NumInstances", "StrandedResources"},
        -1.0: {"IoOps"},
        -1000000.0: {"BuildFailure"},
    }


#: Weighers whose multiplier must not be negative.
NOT_NEGATIVE = {
    PCIWeigher,
    ServerGroupSoftAffinityWeigher,
    ServerGroupSoftAntiAffinityWeigher,
    StrandedResourcesWeigher,
}


@pytest.mark.parametrize("kind", all_weighers())
def test_multiplier_of_each_weigher_is_an_option(kind):
    option = "__".join(kind.multiplier_option)
    for value in (0.0, 3.0):
        plugin = kind.with_settings(settings_with(**{option: value}))
        assert plugin.configured_multiplier == (-value if kind.is_penalty else value)
    if kind in NOT_NEGATIVE:
        with pytest.raises(Invalid, match=kind.multiplier_option[1]):
            settings_with(**{option: -1.0})
    else:
        assert settings_with(**{option: -1.0})


@pytest.mark.parametrize("kind", all_weighers())
def test_metadata_of_aggregates_override_the_multiplier_of_each_weigher(kind):
    key = kind.multiplier_keys[0] if kind.multiplier_keys else kind.multiplier_option[1]
    host = build_host_state(aggregates=build_aggregates({key: "5"}, {key: "-3"}))
    expected = 3.0 if kind.is_penalty else -3.0
    assert kind.with_settings(settings_with()).weight_multiplier(host) == expected


def test_multiplier_of_build_failures_is_reported_with_its_sign():
    answer = run_weigher(BuildFailureWeigher, build_hosts(failed_builds=(4, 0, 1)))
    name = "BuildFailureWeigher"
    assert asdict(answer.reports[0]) == {"name": name, "multiplier": -1000000.0}
    assert answer.host_reports()[-1].weights[name].as_json() == weight(1.0, 4, -1000000.0)


def test_one_failed_build_outweighs_free_memory():
    settings = settings_with()
    weighers = [kind.with_settings(settings) for kind in (RAMWeigher, BuildFailureWeigher)]
    hosts = build_hosts(free_ram_mb=(10_000_000, 512), failed_builds=(1, 0))
    assert run_weighers(weighers, hosts, build_spec()).hosts[0].obj.host == "cn2"
