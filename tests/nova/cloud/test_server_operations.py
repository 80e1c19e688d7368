# SPDX-License-Identifier: Apache-2.0
"""Servers of a nova cloud on this placement, with nova-scheduler and with this scheduler."""

import pytest

from tests.nova.cloud.cloud import COMPUTE_HOSTS, run_nova_cloud
from tests.nova.cloud.operator_commands import run_operator_commands
from tests.nova.cloud.server_operations import (
    FURTHER_SERVER_OPERATIONS,
    MAIN_SERVER_OPERATIONS,
    run_server_operations,
)

pytestmark = pytest.mark.system


@pytest.mark.timeout(1800)  # a minute or two by itself, with nine programs of nova and ours
@pytest.mark.parametrize(
    "steps",
    [MAIN_SERVER_OPERATIONS, pytest.param(FURTHER_SERVER_OPERATIONS, marks=pytest.mark.exhaustive)],
    ids=["main", "further"],
)
def test_server_operations_have_equal_outcomes_under_both_schedulers(tmp_path, steps):
    outcomes = {}
    with run_nova_cloud(tmp_path, "mysql") as cloud, run_operator_commands(cloud) as operator:
        operator.create_flavors_and_images()
        for scheduler in (cloud.nova_scheduler, cloud.our_scheduler):
            cloud.start_scheduler(scheduler)
            outcomes[scheduler.name] = dict(run_server_operations(operator, steps))
            if scheduler is cloud.our_scheduler and steps is FURTHER_SERVER_OPERATIONS:
                check_boot_on_host_with_preferred_trait(operator)
            scheduler.stop()
    theirs, ours = outcomes.values()
    failed = [text for text in (*theirs.values(), *ours.values()) if "FAILED" in str(text)]
    assert not failed, "\n".join(failed)
    assert theirs == ours
    assert list(ours) == [step.__name__ for step in steps]


def check_boot_on_host_with_preferred_trait(operator):
    """Set preferences of a flavor with the client, and create servers of the flavor."""
    first, second = (
        operator.add_trait_to_host(host, f"CUSTOM_{host.upper()}") for host in COMPUTE_HOSTS
    )
    for key, value, host in (
        ("prefer_traits", first, COMPUTE_HOSTS[0]),
        ("prefer_traits", second, COMPUTE_HOSTS[1]),
        ("avoid_traits", first, COMPUTE_HOSTS[1]),
        ("avoid_traits", second, COMPUTE_HOSTS[0]),
    ):
        spec = f"scheduler:{key}"
        # Since 2.86, nova validates the values of extra specs.
        versioned = "--os-compute-api-version 2.86"
        operator.run_openstack(f"{versioned} flavor set m1.tiny --property {spec}={value}")
        server = operator.boot_active_server(f"{key}-{host}")
        assert operator.read_host_of_server(server) == host
        operator.run_openstack(f"{versioned} flavor unset m1.tiny --property {spec}")
    operator.delete_all_servers()
