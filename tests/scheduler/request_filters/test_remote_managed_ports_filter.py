# SPDX-License-Identifier: Apache-2.0
"""remote_managed_ports_filter: the trait is required where a port is remote-managed."""

import pytest

from placement_sched.scheduler.request_filters.root_traits import RemoteManagedPortsFilter
from tests.support.states import a_spec, settings_with

TRAIT = "COMPUTE_REMOTE_MANAGED_PORTS"
PORT = "aaaaaaaa-0000-4000-8000-000000000001"
REMOTE = {"port_id": PORT, "vnic_type": "remote-managed"}
NORMAL = {"port_id": PORT, "vnic_type": "normal"}


def apply(*networks, **fields):
    spec = a_spec(requested_networks=list(networks), **fields)
    return RemoteManagedPortsFilter.with_settings(settings_with()).apply(spec, None)


@pytest.mark.parametrize(
    "networks",
    [
        [REMOTE],
        [{"port_id": PORT, "binding:vnic_type": "remote-managed"}],
        [NORMAL, {"network_id": "net"}, REMOTE],
        [REMOTE, REMOTE],
    ],
    ids=["port", "as neutron spells it", "among others", "several"],
)
def test_remote_managed_port_requires_the_trait(networks):
    outcome = apply(*networks)
    assert outcome.spec.root_required == {TRAIT}
    assert outcome.changes == {"root_required": [TRAIT]}


@pytest.mark.parametrize(
    "networks",
    [
        [],
        [{"network_id": "net"}],
        [{"port_id": PORT}],
        [NORMAL],
        [{"port_id": PORT, "vnic_type": None, "binding:vnic_type": None}],
        *([{"port_id": PORT, "vnic_type": kind}] for kind in ("direct", "macvtap", "vdpa", "x")),
    ],
)
def test_other_ports_and_networks_require_nothing(networks):
    assert apply(*networks) is None


def test_what_the_request_required_before_stays():
    params = {"root_required": ["CUSTOM_A"]}
    outcome = apply(REMOTE, request_level_params=params)
    assert outcome.spec.root_required == {"CUSTOM_A", TRAIT}
    again = apply(REMOTE, request_level_params={"root_required": [TRAIT]})
    assert (again.spec.root_required, again.changes) == ({TRAIT}, {})


def test_filter_is_always_on():
    assert RemoteManagedPortsFilter().enabled(settings_with())
