"""Which CPUs are pinned (nova 34 observed)."""

import pytest

from placement_sched.errors import Invalid
from placement_sched.scheduler.hardware.pinning import Pinning, pinning_of
from tests.scheduler.hardware.asked import flavor_of, image_of

POLICY, MASK = "hw:cpu_policy", "hw:cpu_dedicated_mask"
REALTIME = {"hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "^0"}


@pytest.mark.parametrize(
    ("extra_specs", "policy", "pinned"),
    [
        ({}, None, set()),
        ({POLICY: "shared"}, "shared", set()),
        ({POLICY: "dedicated"}, "dedicated", {0, 1, 2, 3}),
        ({POLICY: "dedicated", **REALTIME}, "dedicated", {0, 1, 2, 3}),
        ({POLICY: "mixed", MASK: "1-2"}, "mixed", {1, 2}),
        ({POLICY: "mixed", **REALTIME}, "mixed", {1, 2, 3}),
    ],
)
def test_pinned_are_those_of_the_policy(extra_specs, policy, pinned):
    found = pinning_of(flavor_of(extra_specs), image_of({}))
    assert (found.cpu_policy, found.pinned) == (policy, pinned)
    assert found.is_asked is bool(pinned)


def test_policies_of_threads_go_with_pinned_cpus():
    flavor = flavor_of({POLICY: "dedicated", "hw:emulator_threads_policy": "isolate"}, vcpus=1)
    assert pinning_of(flavor, image_of({"hw_cpu_thread_policy": "prefer"})) == Pinning(
        cpu_policy="dedicated",
        thread_policy="prefer",
        emulator_threads="isolate",
        pinned=frozenset({0}),
    )


@pytest.mark.parametrize(
    ("extra_specs", "named"),
    [
        ({"hw:cpu_thread_policy": "prefer"}, ("hw:cpu_thread_policy", POLICY)),
        ({"hw:emulator_threads_policy": "isolate"}, ("hw:emulator_threads_policy", POLICY)),
        ({MASK: "1"}, (MASK, POLICY)),
        ({MASK: "1", POLICY: "dedicated"}, (MASK, POLICY)),
        (REALTIME, ("hw:cpu_realtime", POLICY)),
        ({**REALTIME, POLICY: "shared"}, ("hw:cpu_realtime", POLICY)),
        ({POLICY: "mixed"}, (POLICY, MASK, "hw:cpu_realtime")),
        ({POLICY: "mixed", MASK: "1", **REALTIME}, (POLICY, MASK, "hw:cpu_realtime")),
    ],
)
def test_what_does_not_go_with_the_policy_is_refused_naming_the_keys(extra_specs, named):
    with pytest.raises(Invalid) as refused:
        pinning_of(flavor_of(extra_specs), image_of({}))
    assert all(f"'{key}'" in refused.value.detail for key in named)
