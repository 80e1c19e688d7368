# SPDX-License-Identifier: Apache-2.0
"""Requests to neutron over HTTP, and reports of its failures."""

from functools import partial

import pytest

from placement_sched.errors import ServiceFailed
from placement_sched.model.request_spec import Port
from tests.support.neutron import UNREACHABLE_URL, build_neutron_client, run_neutron

UUID_PREFIX = "aaaaaaaa-0000-4000-8000-00000000000"
NETWORK, FLAT_NETWORK, FLAT_SUBNET, PORT, SUBNET, SUBNET_2, IPV6_SUBNET, SEGMENT, SEGMENT_2 = (
    f"{UUID_PREFIX}{number}" for number in range(1, 10)
)


@pytest.fixture
def neutron_service():
    """A routed network of two segments with IPv4 and IPv6 subnets, and an unrouted network."""
    with run_neutron() as neutron:
        neutron.add_subnet(SUBNET, NETWORK, SEGMENT)
        neutron.add_subnet(IPV6_SUBNET, NETWORK, SEGMENT)
        neutron.add_subnet(SUBNET_2, NETWORK, SEGMENT_2)
        neutron.add_subnet(FLAT_SUBNET, FLAT_NETWORK)
        yield neutron


@pytest.fixture
def neutron(neutron_service):
    return build_neutron_client(neutron_service.url)


def test_port_is_read_with_network_type_and_subnets(neutron_service, neutron):
    neutron_service.add_port(
        PORT, NETWORK, SUBNET, IPV6_SUBNET, **{"binding:vnic_type": "remote-managed"}
    )
    assert neutron.find_port(PORT) == Port(
        network_id=NETWORK, vnic_type="remote-managed", subnet_ids=(SUBNET, IPV6_SUBNET)
    )
    assert neutron_service.seen == [f"/ports/{PORT}"]


def test_port_without_vnic_type_is_read_with_type_normal(neutron_service, neutron):
    neutron_service.add_port(PORT, NETWORK, **{"binding:vnic_type": None, "fixed_ips": None})
    assert neutron.find_port(PORT) == Port(network_id=NETWORK, vnic_type="normal")


def test_unknown_neutron_port_is_read_as_none(neutron):
    assert neutron.find_port(PORT) is None
    assert neutron.find_port("../subnets/x") is None


def test_segments_of_a_network_are_returned_without_duplicates(neutron):
    assert neutron.list_network_segments(NETWORK) == (SEGMENT, SEGMENT_2)


def test_unrouted_or_unknown_network_has_no_segments(neutron):
    for network in (FLAT_NETWORK, "no-such-network"):
        assert neutron.list_network_segments(network) == ()


def test_neutron_subnets_are_read_page_by_page(neutron_service, neutron):
    for page in (1, 2, 3, 4):
        neutron_service.page = page
        assert neutron.list_network_segments(NETWORK) == (SEGMENT, SEGMENT_2), page


def test_segment_of_a_neutron_subnet_is_read(neutron):
    for subnet, segments in ((SUBNET_2, (SEGMENT_2,)), (FLAT_SUBNET, ()), ("no-such-subnet", None)):
        assert neutron.find_subnet_segments(subnet) == segments


def test_networks_have_no_segments_without_the_segment_extension(neutron_service, neutron):
    neutron_service.extensions.remove("segment")
    assert neutron.list_network_segments(NETWORK) == ()
    assert neutron.find_subnet_segments(SUBNET) == ()
    assert neutron_service.seen == ["/extensions"]


def test_neutron_extensions_are_cached_for_600_seconds(neutron_service):
    now = [0.0]
    neutron = build_neutron_client(neutron_service.url, clock=lambda: now[0])
    for moment, requests in ((0, 1), (599, 1), (600, 2), (700, 2)):
        now[0] = moment
        neutron.find_subnet_segments(SUBNET)
        assert neutron_service.seen.count("/extensions") == requests, moment


def test_neutron_endpoint_can_include_the_version(neutron_service):
    neutron_service.add_port(PORT, NETWORK)
    for suffix in ("", "/", "/v2.0", "/v2.0/"):
        assert build_neutron_client(neutron_service.url + suffix).find_port(PORT) == Port(
            network_id=NETWORK
        )
    assert neutron_service.seen == [f"/ports/{PORT}"] * 4


def call_and_get_failure_detail(work) -> str:
    with pytest.raises(ServiceFailed) as failure:
        work()
    assert failure.value.service == "network"
    assert "\n" not in failure.value.detail
    return failure.value.detail


def test_unavailable_neutron_is_reported():
    detail = call_and_get_failure_detail(
        lambda: build_neutron_client(UNREACHABLE_URL).find_port(PORT)
    )
    assert detail == f"{UNREACHABLE_URL} does not answer: Connection refused"


def test_request_to_a_slow_neutron_times_out(neutron_service):
    neutron_service.awake.clear()
    detail = call_and_get_failure_detail(
        lambda: build_neutron_client(neutron_service.url, timeout=0.05).find_port(PORT)
    )
    assert detail.startswith(f"{neutron_service.url} does not answer: ")
    assert "timed out" in detail


NEUTRON_ERROR_BODY = {
    "NeutronError": {"type": "x", "message": "The resource is gone.", "detail": ""}
}


def test_failed_response_of_neutron_is_reported(neutron_service, neutron):
    for status, body, words in (
        ("401 Unauthorized", {"error": {"message": "who?"}}, "answered 401 Unauthorized (who?)"),
        ("403 Forbidden", NEUTRON_ERROR_BODY, "answered 403 Forbidden (The resource is gone.)"),
        ("500 Internal Server Error", b"oops", "answered 500 Internal Server Error"),
        ("503 Service Unavailable", b"", "answered 503 Service Unavailable"),
        ("404 Not Found", b"nginx", "Check that it is the address of neutron"),
        ("404 Not Found", {"message": "no route"}, "Check that it is the address of neutron"),
    ):
        neutron_service.failure = (status, body)
        assert words in call_and_get_failure_detail(lambda: neutron.find_port(PORT)), status


MALFORMED_DOCUMENTS = {
    f"/ports/{PORT}": [
        *(b"<html>", [], {}, {"port": []}, {"port": {}}),
        {"port": {"network_id": "n", "fixed_ips": 1}},
    ],
    "/extensions": [b"<html>", {}, {"extensions": [{}]}, {"extensions": [1]}],
    "/subnets": [{}, {"subnets": 1}, {"subnets": [1]}],
}


def test_malformed_document_of_neutron_is_reported(neutron_service, neutron):
    for path, documents in MALFORMED_DOCUMENTS.items():
        if path == "/subnets":
            neutron_service.failure = None
            neutron.find_subnet_segments(SUBNET)  # reads the extensions
        read = neutron.find_port if "port" in path else neutron.list_network_segments
        for document in documents:
            neutron_service.failure = ("200 OK", document)
            detail = call_and_get_failure_detail(partial(read, PORT if "port" in path else NETWORK))
            assert f"to GET {path} does not match the network API" in detail, document


def test_proxy_errors_of_neutron_are_retried(neutron_service):
    neutron_service.failure = ("503 Service Unavailable", b"")
    call_and_get_failure_detail(
        lambda: build_neutron_client(neutron_service.url, retries=1).find_port(PORT)
    )
    assert len(neutron_service.seen) == 2


def test_port_resources_of_instances_are_read_in_both_formats(neutron_service, neutron):
    bandwidth = {
        "resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 1000},
        "required": ["CUSTOM_PHYSNET_A"],
    }
    groups = {"request_groups": [{"id": UUID_PREFIX, **bandwidth}], "same_subtree": []}
    requests = (bandwidth, groups, None, {})
    for number, request in enumerate(requests):
        fields = {"device_id": f"server{number}", "resource_request": request}
        neutron_service.add_port(f"port{number}", NETWORK, **fields)
    resources = neutron.map_port_resources([f"server{number}" for number in range(60)])
    entry = {"resources": bandwidth["resources"], "required_traits": bandwidth["required"]}
    assert resources.pop("server0") == [{"requester_id": "port0", **entry}]
    assert resources.pop("server1") == [{"requester_id": UUID_PREFIX, **entry}]
    assert (len(resources), list(filter(None, resources.values()))) == (58, [])
    assert len(neutron_service.seen) == 2
