"""CPUs that a flavor asks of placement itself (nova 34 observed)."""

import pytest

from placement_sched.errors import Invalid
from placement_sched.scheduler.hardware.cpu_resources import (
    resulting_cpu_policy,
    resulting_thread_policy,
)
from placement_sched.scheduler.hardware.numa import numa_topology
from tests.scheduler.hardware.asked import flavor_of, image_of
from tests.scheduler.states import a_spec

TRAIT = "trait:HW_CPU_HYPERTHREADING"
ISOLATED = {"hw:emulator_threads_policy": "isolate"}


@pytest.mark.parametrize(
    ("extra_specs", "policy"),
    [
        ({}, None),
        ({"hw:cpu_policy": "mixed"}, "mixed"),
        ({"hw:cpu_policy": "mixed", "resources:PCPU": "0"}, "mixed"),
        ({"resources:VCPU": "1"}, "shared"),
        ({"resources:PCPU": "4"}, "dedicated"),
        ({"resources1:PCPU": "1", "resources:PCPU": "3"}, "dedicated"),
        ({"resources:PCPU": "5", **ISOLATED}, "dedicated"),
        ({"resources:PCPU": "many", "resources_a:PCPU": "1"}, None),
    ],
)
def test_cpu_policy_results_from_the_classes_asked(extra_specs, policy):
    assert resulting_cpu_policy(flavor_of(extra_specs), image_of({})) == policy


@pytest.mark.parametrize(
    ("extra_specs", "properties", "named"),
    [
        ({"resources:PCPU": "4"}, {"hw_cpu_policy": "dedicated"}, ("hw_cpu_policy",)),
        ({"resources:VCPU": "4", "hw:cpu_policy": "shared"}, {}, ("hw:cpu_policy",)),
        ({"resources:PCPU": "4", "resources:VCPU": "4"}, {}, ("resources:VCPU",)),
        ({"resources:PCPU": "3"}, {}, ("resources:PCPU",)),
        ({"resources:PCPU": "4", **ISOLATED}, {}, ("hw:emulator_threads_policy",)),
    ],
)
def test_cpu_classes_must_go_with_the_policy_and_the_vcpus(extra_specs, properties, named):
    with pytest.raises(Invalid) as refused:
        resulting_cpu_policy(flavor_of(extra_specs), image_of(properties))
    assert all(f"'{key}'" in refused.value.detail for key in (*named, *extra_specs))


@pytest.mark.parametrize(
    ("extra_specs", "properties", "policy"),
    [
        ({}, {}, None),
        ({"hw:cpu_thread_policy": "prefer"}, {}, "prefer"),
        ({TRAIT: "required"}, {}, "require"),
        ({"trait1:HW_CPU_HYPERTHREADING": "forbidden"}, {}, "isolate"),
        ({}, {TRAIT: "required"}, "require"),
        ({TRAIT: "forbidden"}, {TRAIT: "required"}, "isolate"),
        ({TRAIT: "perhaps"}, {}, None),
    ],
)
def test_thread_policy_results_from_the_trait_asked(extra_specs, properties, policy):
    assert resulting_thread_policy(flavor_of(extra_specs), image_of(properties)) == policy


@pytest.mark.parametrize(
    ("extra_specs", "properties"),
    [
        ({"hw:cpu_thread_policy": "prefer", TRAIT: "required"}, {}),
        ({TRAIT: "required"}, {"hw_cpu_thread_policy": "require"}),
        ({"hw:cpu_thread_policy": "require"}, {TRAIT: "required"}),
    ],
)
def test_thread_policy_may_not_stand_beside_the_trait(extra_specs, properties):
    with pytest.raises(Invalid, match=rf"cpu_thread_policy' and .*{TRAIT}"):
        resulting_thread_policy(flavor_of(extra_specs), image_of(properties))


PINNED = {"hw:cpu_policy": "dedicated"}


@pytest.mark.parametrize(
    ("extra_specs", "keys"),
    [
        (PINNED | {"resources1:VCPU": "2"}, ["hw:cpu_policy", "resources1:VCPU"]),
        ({"resources1:VCPU": "2", "resources2:PCPU": "2"}, ["resources1:VCPU", "resources2:PCPU"]),
        (
            PINNED
            | {"hw:cpu_thread_policy": "isolate", "trait1:HW_CPU_HYPERTHREADING": "required"},
            ["hw:cpu_thread_policy", "trait1:HW_CPU_HYPERTHREADING"],
        ),
        ({"resources1:PCPU": "7"}, ["resources1:PCPU"]),
    ],
    ids=str,
)
def test_keys_are_told_with_the_suffixes_that_they_have(extra_specs, keys):
    spec = a_spec(extra_specs)
    with pytest.raises(Invalid) as refused:
        numa_topology(spec.flavor, spec.image)
    for key in keys:
        assert repr(key) in refused.value.detail
