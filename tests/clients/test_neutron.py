# SPDX-License-Identifier: Apache-2.0
"""Neutron asked over HTTP: what it tells, and how it is told that it does not."""

import pytest

from placement_sched.errors import ServiceFailed
from placement_sched.model.request_spec import Port
from tests.support.neutron import NOWHERE, build_neutron_client, run_neutron

SOME = "aaaaaaaa-0000-4000-8000-00000000000"
NET, OTHER_NET, FLAT, PORT, SUBNET, SUBNET_2, SUBNET_6, SEGMENT, SEGMENT_2 = (
    f"{SOME}{number}" for number in range(1, 10)
)


@pytest.fixture
def fake():
    """A routed network of two segments, one with an IPv6 subnet as well, and one that is flat."""
    with run_neutron() as neutron:
        neutron.add_subnet(SUBNET, NET, SEGMENT)
        neutron.add_subnet(SUBNET_6, NET, SEGMENT)
        neutron.add_subnet(SUBNET_2, NET, SEGMENT_2)
        neutron.add_subnet(FLAT, OTHER_NET)
        yield neutron


@pytest.fixture
def neutron(fake):
    return build_neutron_client(fake.url)


def test_port_is_told_with_network_type_and_subnets(fake, neutron):
    fake.add_port(PORT, NET, SUBNET, SUBNET_6, **{"binding:vnic_type": "remote-managed"})
    assert neutron.port(PORT) == Port(
        network_id=NET, vnic_type="remote-managed", subnet_ids=(SUBNET, SUBNET_6)
    )
    assert fake.seen == [f"/ports/{PORT}"]


@pytest.mark.parametrize("hidden", [{"binding:vnic_type": None}, {"fixed_ips": None}])
def test_port_of_which_neutron_tells_less_is_a_normal_one(fake, neutron, hidden):
    fake.add_port(PORT, NET, **hidden)
    assert neutron.port(PORT) == Port(network_id=NET, vnic_type="normal")


def test_port_that_is_not_there_is_none(neutron):
    assert neutron.port(PORT) is None
    assert neutron.port("../subnets/x") is None


def test_segments_of_a_network_are_told_once_each(neutron):
    assert neutron.segments_of_network(NET) == (SEGMENT, SEGMENT_2)


@pytest.mark.parametrize("network", [OTHER_NET, "no-such-network"])
def test_network_that_is_not_routed_or_not_there_has_no_segments(neutron, network):
    assert neutron.segments_of_network(network) == ()


@pytest.mark.parametrize("page", [1, 2, 3, 4])
def test_subnets_are_read_page_by_page(fake, neutron, page):
    fake.page = page
    assert neutron.segments_of_network(NET) == (SEGMENT, SEGMENT_2)


@pytest.mark.parametrize(
    ("subnet", "segments"), [(SUBNET_2, (SEGMENT_2,)), (FLAT, ()), ("no-such-subnet", None)]
)
def test_segment_of_a_subnet(neutron, subnet, segments):
    assert neutron.segments_of_subnet(subnet) == segments


def test_nothing_is_routed_without_the_segment_extension(fake, neutron):
    fake.extensions.remove("segment")
    assert neutron.segments_of_network(NET) == ()
    assert neutron.segments_of_subnet(SUBNET) == ()
    assert fake.seen == ["/extensions"]


def test_extensions_are_remembered_for_a_while(fake):
    now = [0.0]
    neutron = build_neutron_client(fake.url, clock=lambda: now[0])
    for moment, asked in ((0, 1), (599, 1), (600, 2), (700, 2)):
        now[0] = moment
        neutron.segments_of_subnet(SUBNET)
        assert fake.seen.count("/extensions") == asked, moment


@pytest.mark.parametrize("suffix", ["", "/", "/v2.0", "/v2.0/"])
def test_address_may_end_with_the_version_or_not(fake, suffix):
    fake.add_port(PORT, NET)
    assert build_neutron_client(fake.url + suffix).port(PORT) == Port(network_id=NET)
    assert fake.seen == [f"/ports/{PORT}"]


def failure(work) -> str:
    with pytest.raises(ServiceFailed) as told:
        work()
    assert told.value.service == "network"
    assert "\n" not in told.value.detail
    return told.value.detail


def test_neutron_that_is_down_is_told():
    told = failure(lambda: build_neutron_client(NOWHERE).port(PORT))
    assert told == f"{NOWHERE} does not answer: Connection refused"


def test_neutron_that_is_slow_is_not_waited_for_longer_than_told(fake):
    fake.awake.clear()
    told = failure(lambda: build_neutron_client(fake.url, timeout=0.05).port(PORT))
    assert told.startswith(f"{fake.url} does not answer: ")
    assert "timed out" in told


REFUSED = {"NeutronError": {"type": "x", "message": "The resource is gone.", "detail": ""}}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (("401 Unauthorized", {"error": {"message": "who?"}}), "answered 401 Unauthorized (who?)"),
        (("403 Forbidden", REFUSED), "answered 403 Forbidden (The resource is gone.)"),
        (("500 Internal Server Error", b"oops"), "answered 500 Internal Server Error"),
        (("503 Service Unavailable", b""), "answered 503 Service Unavailable"),
        (("404 Not Found", b"nginx"), "is the address that of neutron?"),
        (("404 Not Found", {"message": "no route"}), "is the address that of neutron?"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_answer_that_is_none_is_told(fake, neutron, answer, words):
    fake.failure = answer
    assert words in failure(lambda: neutron.port(PORT))


@pytest.mark.parametrize(
    "document",
    [b"<html>", [], {}, {"port": []}, {"port": {}}, {"port": {"network_id": "n", "fixed_ips": 1}}],
)
def test_port_that_does_not_fit_is_told(fake, neutron, document):
    fake.failure = ("200 OK", document)
    words = f"did not answer GET /ports/{PORT} as the networking API says"
    assert words in failure(lambda: neutron.port(PORT))


@pytest.mark.parametrize("document", [b"<html>", {}, {"extensions": [{}]}, {"extensions": [1]}])
def test_extensions_that_do_not_fit_are_told(fake, neutron, document):
    fake.failure = ("200 OK", document)
    words = "did not answer GET /extensions as the networking API says"
    assert words in failure(lambda: neutron.segments_of_network(NET))


@pytest.mark.parametrize("document", [{}, {"subnets": 1}, {"subnets": [1]}])
def test_subnets_that_do_not_fit_are_told(fake, neutron, document):
    neutron.segments_of_subnet(SUBNET)
    fake.failure = ("200 OK", document)
    words = "did not answer GET /subnets as the networking API says"
    assert words in failure(lambda: neutron.segments_of_network(NET))


def test_neutron_behind_a_proxy_is_asked_again(fake):
    fake.failure = ("503 Service Unavailable", b"")
    failure(lambda: build_neutron_client(fake.url, retries=1).port(PORT))
    assert len(fake.seen) == 2
