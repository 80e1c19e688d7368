# SPDX-License-Identifier: Apache-2.0
"""What is asked of neutron for a request, and what is not."""

import pytest

from placement_sched.errors import Invalid, ServiceFailed
from placement_sched.scheduler.request import neutron_of, with_network_data
from tests.support.neutron import NOWHERE, asking, running
from tests.support.states import a_spec, settings_with

SOME = "aaaaaaaa-0000-4000-8000-00000000000"
NET, FLAT, PORT, PORT_2, SUBNET, SUBNET_2, SEGMENT, SEGMENT_2 = (
    f"{SOME}{number}" for number in range(1, 9)
)
ROUTED = {"scheduler__query_placement_for_routed_network_aggregates": True}
EXTENSIONS = "/extensions"
OF_NET = f"/subnets?network_id={NET}"


@pytest.fixture
def fake():
    """A routed network of two segments, a port on one of them, and one on none yet."""
    with running() as neutron:
        neutron.add_subnet(SUBNET, NET, SEGMENT)
        neutron.add_subnet(SUBNET_2, NET, SEGMENT_2)
        neutron.add_port(PORT, NET, SUBNET_2, **{"binding:vnic_type": "direct"})
        neutron.add_port(PORT_2, NET)
        yield neutron


def completed(url, *networks, hints=None, **options):
    settings = settings_with(**options)
    spec = a_spec(requested_networks=list(networks), scheduler_hints=hints or {})
    return with_network_data(spec, asking(url), settings).requested_networks


def facts(*arguments, **options):
    return [(one.vnic_type, one.segments) for one in completed(*arguments, **options)]


@pytest.mark.parametrize(
    ("network", "known", "asked"),
    [
        ({"network_id": NET}, (None, (SEGMENT, SEGMENT_2)), [EXTENSIONS, OF_NET]),
        ({"network_id": FLAT}, (None, ()), [EXTENSIONS, f"/subnets?network_id={FLAT}"]),
        (
            {"port_id": PORT},
            ("direct", (SEGMENT_2,)),
            [f"/ports/{PORT}", EXTENSIONS, f"/subnets/{SUBNET_2}"],
        ),
        (
            {"port_id": PORT_2},
            ("normal", (SEGMENT, SEGMENT_2)),
            [f"/ports/{PORT_2}", EXTENSIONS, OF_NET],
        ),
        (
            {"port_id": PORT, "network_id": FLAT},
            ("direct", (SEGMENT_2,)),
            [f"/ports/{PORT}", EXTENSIONS, f"/subnets/{SUBNET_2}"],
        ),
        ({"port_id": PORT, "segments": [SEGMENT]}, ("direct", (SEGMENT,)), [f"/ports/{PORT}"]),
        ({"port_id": PORT, "vnic_type": "x", "segments": []}, ("x", ()), []),
        (
            {"port_id": PORT, "vnic_type": "x", "fixed_ips": [{"subnet_id": SUBNET}]},
            ("x", (SEGMENT,)),
            [EXTENSIONS, f"/subnets/{SUBNET}"],
        ),
        (
            {"port_id": PORT, "vnic_type": "x", "fixed_ips": [], "network_id": NET},
            ("x", (SEGMENT, SEGMENT_2)),
            [EXTENSIONS, OF_NET],
        ),
        (
            {"port_id": PORT, "vnic_type": "x", "fixed_ips": []},
            ("x", (SEGMENT, SEGMENT_2)),
            [f"/ports/{PORT}", EXTENSIONS, OF_NET],
        ),
        ({"network_id": NET, "segments": [SEGMENT_2]}, (None, (SEGMENT_2,)), []),
        ({"network_id": "auto"}, (None, None), []),
        ({"network_id": "none"}, (None, None), []),
        ({}, (None, None), []),
    ],
    ids=[
        "network",
        "network without subnets",
        "port with an address",
        "port without an address",
        "network of the port is neutron's",
        "port whose segments are told",
        "port of which all is told",
        "port whose subnet is told",
        "port without an address, and its network",
        "port without an address, and no network",
        "network whose segments are told",
        "network that neutron chooses",
        "no network",
        "nothing",
    ],
)
def test_what_is_not_told_is_asked(fake, network, known, asked):
    assert facts(fake.url, network, **ROUTED) == [known]
    assert fake.seen == asked


@pytest.mark.parametrize(
    ("network", "asked"),
    [
        ({"network_id": NET}, []),
        ({"port_id": PORT}, [f"/ports/{PORT}"]),
        ({"port_id": PORT, "binding:vnic_type": "normal"}, []),
        ({"port_id": PORT, "binding:vnic_type": None}, [f"/ports/{PORT}"]),
    ],
)
def test_segments_are_not_asked_where_no_filter_wants_them(fake, network, asked):
    ((_, segments),) = facts(fake.url, network)
    assert (segments, fake.seen) == (None, asked)


def test_everything_is_asked_once(fake):
    networks = [{"port_id": PORT}, {"network_id": NET}, {"port_id": PORT_2}, {"port_id": PORT}]
    assert facts(fake.url, *networks, **ROUTED) == [
        ("direct", (SEGMENT_2,)),
        (None, (SEGMENT, SEGMENT_2)),
        ("normal", (SEGMENT, SEGMENT_2)),
        ("direct", (SEGMENT_2,)),
    ]
    assert sorted(fake.seen) == sorted(set(fake.seen))


def test_nothing_is_asked_for_a_rebuild(fake):
    assert facts(fake.url, {"port_id": PORT}, hints={"_nova_check_type": ["rebuild"]}, **ROUTED)
    assert fake.seen == []


def test_without_neutron_only_what_is_told_is_known():
    settings = settings_with(**ROUTED)
    spec = a_spec(requested_networks=[{"port_id": PORT}, {"network_id": NET, "segments": []}])
    assert neutron_of(settings) is None
    assert with_network_data(spec, None, settings) is spec


@pytest.mark.parametrize(
    ("network", "words"),
    [
        (
            {"port_id": SUBNET},
            f"neutron has no port {SUBNET} (at $.request_spec.requested_networks[1].port_id)",
        ),
        (
            {"fixed_ips": [{"subnet_id": PORT}]},
            f"neutron has no subnet {PORT} (at $.request_spec.requested_networks[1])",
        ),
    ],
)
def test_what_is_not_there_is_a_fault_of_the_request(fake, network, words):
    with pytest.raises(Invalid) as told:
        completed(fake.url, {"network_id": NET}, network, **ROUTED)
    assert told.value.detail == words


def test_neutron_that_does_not_answer_is_told():
    with pytest.raises(ServiceFailed, match=f"{NOWHERE} does not answer"):
        completed(NOWHERE, {"port_id": PORT})
