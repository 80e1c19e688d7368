# SPDX-License-Identifier: Apache-2.0
"""Request filter of routed networks, after "Routed networks" of nova."""

import pytest

from placement_sched.model.rejection import Rejection
from placement_sched.model.request_spec import NetworkRequest
from placement_sched.scheduler.request_filters.routed_networks_filter import RoutedNetworksFilter
from tests.support.states import build_spec

NETWORK_ID, NETWORK_2_ID, PORT_ID, SUBNET_ID = (
    f"aaaaaaaa-0000-4000-8000-00000000000{number}" for number in range(4)
)
SEGMENT_1, SEGMENT_2, SEGMENT_3, SEGMENT_4 = (
    f"bbbbbbbb-0000-4000-8000-00000000000{number}" for number in range(4)
)
AGGREGATES_BY_SEGMENT = {
    SEGMENT_1: frozenset({"agg1"}),
    SEGMENT_2: frozenset({"agg2"}),
    SEGMENT_3: frozenset({"agg3b", "agg3a"}),
}


class CloudWithSegments:
    """Segments of three racks, and a record of the queries."""

    def __init__(self):
        self.queries = []

    def provider_aggregates(self, uuids):
        self.queries.append(set(uuids))
        return {
            uuid: AGGREGATES_BY_SEGMENT[uuid] for uuid in uuids if uuid in AGGREGATES_BY_SEGMENT
        }


def apply_filter(*networks, cloud=None, **fields):
    request = build_spec(requested_networks=list(networks), **fields)
    return RoutedNetworksFilter().apply(request, cloud or CloudWithSegments())


def build_network(*segments, **fields):
    return {"network_id": NETWORK_ID, "segments": list(segments), **fields}


@pytest.mark.parametrize(
    ("networks", "aggregates"),
    [
        ([build_network(SEGMENT_1)], ["agg1"]),
        ([build_network(SEGMENT_1, SEGMENT_2)], ["agg1,agg2"]),
        ([build_network(SEGMENT_2, SEGMENT_1)], ["agg1,agg2"]),
        ([build_network(SEGMENT_3)], ["agg3a,agg3b"]),
        (
            [
                build_network(SEGMENT_1, SEGMENT_2),
                build_network(SEGMENT_2, SEGMENT_3, network_id=NETWORK_2_ID),
            ],
            ["agg1,agg2", "agg2,agg3a,agg3b"],
        ),
        (
            [build_network(SEGMENT_1, SEGMENT_2), build_network(SEGMENT_2, port_id=PORT_ID)],
            ["agg1,agg2", "agg2"],
        ),
        ([build_network(SEGMENT_1), build_network(SEGMENT_1, port_id=PORT_ID)], ["agg1"]),
        ([build_network(), build_network(SEGMENT_1), build_network()], ["agg1"]),
        ([build_network(SEGMENT_1), {"network_id": "auto"}, {}], ["agg1"]),
        ([build_network(SEGMENT_1.upper())], ["agg1"]),
    ],
)
def test_aggregates_of_the_segments_are_required(networks, aggregates):
    outcome = apply_filter(*networks)
    assert outcome.spec.destination.aggregates == tuple(aggregates)
    assert outcome.changes == {"aggregates": aggregates}


@pytest.mark.parametrize(
    "networks",
    [
        [],
        [build_network()],
        [{"network_id": "auto"}],
        [{"network_id": "none"}],
        [{}],
        [build_network(), {}],
    ],
)
def test_networks_without_segments_require_no_aggregate(networks):
    assert apply_filter(*networks) is None


def test_aggregates_of_all_segments_are_read_at_once():
    cloud = CloudWithSegments()
    apply_filter(
        build_network(SEGMENT_1, SEGMENT_2),
        build_network(),
        build_network(SEGMENT_3, network_id=NETWORK_2_ID),
        cloud=cloud,
    )
    assert cloud.queries == [{SEGMENT_1, SEGMENT_2, SEGMENT_3}]


@pytest.mark.parametrize(
    ("networks", "about"),
    [
        ([build_network(SEGMENT_1, SEGMENT_4)], f"network {NETWORK_ID}"),
        (
            [build_network(SEGMENT_1), build_network(SEGMENT_4, network_id=NETWORK_2_ID)],
            f"network {NETWORK_2_ID}",
        ),
        (
            [build_network(SEGMENT_4, port_id=PORT_ID, fixed_ips=[{"subnet_id": SUBNET_ID}])],
            f"subnet {SUBNET_ID}",
        ),
        ([{"port_id": PORT_ID, "segments": [SEGMENT_4]}], f"port {PORT_ID}"),
    ],
    ids=["one of several segments", "second network", "subnet", "port"],
)
def test_segment_without_an_aggregate_rejects_the_request(networks, about):
    outcome = apply_filter(*networks)
    values = {"network": about, "segment": SEGMENT_4}
    assert outcome == Rejection(kind="routed_network", values=values)


@pytest.mark.parametrize(
    ("networks", "about"),
    [
        ([{"network_id": NETWORK_ID}], f"network {NETWORK_ID}"),
        ([build_network(SEGMENT_1), {"port_id": PORT_ID}], f"port {PORT_ID}"),
        ([{"port_id": PORT_ID, "network_id": NETWORK_ID}], f"network {NETWORK_ID}"),
        ([{"fixed_ips": [{"subnet_id": SUBNET_ID}]}], f"subnet {SUBNET_ID}"),
    ],
)
def test_unknown_segments_reject_the_request(networks, about):
    assert apply_filter(*networks) == Rejection(kind="routed_network", values={"network": about})


def test_requested_network_has_the_attribute_names_of_nova():
    (network,) = build_spec(
        requested_networks=[
            {
                "network_id": NETWORK_ID,
                "port_id": PORT_ID,
                "address": "192.0.2.7",
                "tag": "nic0",
                "pci_request_id": None,
                "device_profile": "gpu",
            }
        ]
    ).requested_networks
    assert network == NetworkRequest(
        network_id=NETWORK_ID,
        port_id=PORT_ID,
        address="192.0.2.7",
        tag="nic0",
        device_profile="gpu",
    )
    assert network.arq_uuid is None
