# SPDX-License-Identifier: Apache-2.0
"""Servers of a nova cloud on this placement, with nova-scheduler and with this scheduler."""

import pytest

from tests.nova.cloud.cloud import HOSTS, running_cloud
from tests.nova.cloud.operator_commands import running_operator
from tests.nova.cloud.server_operations import FURTHER_STEPS, MAIN_STEPS, run_steps

pytestmark = pytest.mark.system


@pytest.mark.timeout(1800)  # a minute or two by itself, with nine programs of nova and ours
@pytest.mark.parametrize(
    "steps",
    [MAIN_STEPS, pytest.param(FURTHER_STEPS, marks=pytest.mark.exhaustive)],
    ids=["main", "further"],
)
def test_server_operations_have_equal_outcomes_under_both_schedulers(tmp_path, steps):
    outcomes = {}
    with running_cloud(tmp_path, "mysql") as cloud, running_operator(cloud) as operator:
        operator.prepare()
        for scheduler in (cloud.nova_scheduler, cloud.our_scheduler):
            cloud.start_scheduler(scheduler)
            outcomes[scheduler.name] = dict(run_steps(operator, steps))
            if scheduler is cloud.our_scheduler and steps is FURTHER_STEPS:
                check_preferred_traits(operator)
            scheduler.stop()
    theirs, ours = outcomes.values()
    failed = [text for text in (*theirs.values(), *ours.values()) if "FAILED" in str(text)]
    assert not failed, "\n".join(failed)
    assert theirs == ours
    assert list(ours) == [step.__name__ for step in steps]


def check_preferred_traits(operator):
    """Set preferences of a flavor with the client, and create servers of the flavor."""
    first, second = (operator.add_trait(host, f"CUSTOM_{host.upper()}") for host in HOSTS)
    for key, value, host in (
        ("prefer_traits", first, HOSTS[0]),
        ("prefer_traits", second, HOSTS[1]),
        ("avoid_traits", first, HOSTS[1]),
        ("avoid_traits", second, HOSTS[0]),
    ):
        spec = f"scheduler:{key}"
        # Since 2.86, nova validates the values of extra specs.
        versioned = "--os-compute-api-version 2.86"
        operator.run(f"{versioned} flavor set m1.tiny --property {spec}={value}")
        server = operator.boot_active_server(f"{key}-{host}")
        assert operator.host(server) == host
        operator.run(f"{versioned} flavor unset m1.tiny --property {spec}")
    operator.delete_all()
