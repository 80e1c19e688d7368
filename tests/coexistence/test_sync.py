# SPDX-License-Identifier: Apache-2.0
"""Sync of OpenStack's placement with host aggregates of our compute API over HTTP."""

from functools import partial

import pytest

from placement_sched.clients.placement import (
    RemotePlacement,
    TraitFile,
    open_trait_file,
    read_remote_hosts,
)
from placement_sched.model.aggregates import SyncCode
from placement_sched.operations.provider_sync import sync_aggregates, sync_traits
from tests.clients.in_process import (
    FunctionTransport,
    build_peer_handler,
    build_wsgi_handler,
    compute_service,
    placement_service,
)
from tests.differential.exchange import Request
from tests.differential.sides import OpenStackPlacementPeer
from tests.support.clouds import uuid_of
from tests.support.host_maps import (
    LICENSED_TRAIT,
    add_aggregate,
    build_aggregate_join,
    build_trait_addition,
    set_metadata,
)
from tests.support.reports import build_report, node_uuid

pytestmark = pytest.mark.system

TRAIT_METADATA = {f"trait:{LICENSED_TRAIT}": "required"}
PEER_URL = "http://theirs"
#: Numbers of the hosts that have providers. The host cn4 has no provider.
HOSTS_WITH_PROVIDER = (1, 2, 3)


@pytest.fixture(scope="module")
def peer_service(tmp_path_factory):
    service = OpenStackPlacementPeer(f"sqlite:///{tmp_path_factory.mktemp('peer') / 'peer.db'}")
    yield service
    service.close()


@pytest.fixture
def peer_with_licensed_trait(peer_service):
    for number in HOSTS_WITH_PROVIDER:
        body = {"uuid": node_uuid(number), "name": f"cn{number}"}
        assert send_peer_request(peer_service, "POST", "/resource_providers", body).status < 300
    yield FunctionTransport(build_peer_handler(peer_service))
    for number in HOSTS_WITH_PROVIDER:
        send_peer_request(peer_service, "DELETE", f"/resource_providers/{node_uuid(number)}")
    send_peer_request(peer_service, "DELETE", f"/traits/{LICENSED_TRAIT}")


@pytest.fixture
def make_host_reader(sqlite_app):
    reports = [
        {**build_report(number), "inventories": False} for number in (*HOSTS_WITH_PROVIDER, 4)
    ]
    sqlite_app.post_json("/scheduler/v1/compute_nodes", reports)
    service = compute_service(
        FunctionTransport(build_wsgi_handler(sqlite_app.app)), "http://ours/compute/v2.1"
    )
    return partial(read_remote_hosts, service)


def send_peer_request(peer, method, path, body=...):
    return peer.send_request(Request(method, path, version="1.20", document=body))


def read_provider_values_from_peer(peer, number, noun):
    path = f"/resource_providers/{node_uuid(number)}/{noun}"
    return set(send_peer_request(peer, "GET", path).document[noun])


def test_sync_aggregates_of_a_remote_placement_is_idempotent(
    peer_service, peer_with_licensed_trait, make_host_reader, sqlite_database
):
    add_aggregate(sqlite_database, "a", ["cn1", "cn2", "cn4"])
    add_aggregate(sqlite_database, "b", ["cn2"])
    placement = RemotePlacement(placement_service(peer_with_licensed_trait, PEER_URL))
    placement.change(build_aggregate_join(uuid_of("b"), node_uuid(3)))
    synced = sync_aggregates(make_host_reader, placement)
    assert [(each.code, each.about) for each in synced.problems] == [(SyncCode.NO_PROVIDER, "cn4")]
    a, b = uuid_of("a"), uuid_of("b")
    assert [
        read_provider_values_from_peer(peer_service, number, "aggregates")
        for number in HOSTS_WITH_PROVIDER
    ] == [{a}, {a, b}, {b}]
    sync_aggregates(make_host_reader, placement, remove_stale=True)
    assert read_provider_values_from_peer(peer_service, 3, "aggregates") == set()
    peer_with_licensed_trait.seen.clear()
    again = sync_aggregates(make_host_reader, placement, remove_stale=True)
    assert (again.added, again.removed, again.stale) == (set(), set(), set())
    assert {line.partition(" ")[0] for line in peer_with_licensed_trait.seen} == {"GET"}


def test_sync_traits_of_a_remote_placement_keeps_manual_traits(
    peer_service, peer_with_licensed_trait, make_host_reader, sqlite_database, tmp_path
):
    add_aggregate(sqlite_database, "windows", ["cn1", "cn2"], TRAIT_METADATA)
    service, file = placement_service(peer_with_licensed_trait, PEER_URL), tmp_path / "put.json"
    by_hand = RemotePlacement(service)
    by_hand.create_trait(LICENSED_TRAIT)
    by_hand.change(build_trait_addition(LICENSED_TRAIT, {node_uuid(2): ""}))
    by_hand.change(build_trait_addition("HW_CPU_X86_AVX2", {node_uuid(1): ""}))
    with open_trait_file(file, service.url) as record:
        synced = sync_traits(make_host_reader, RemotePlacement(service, record))
        assert synced.added == {(node_uuid(1), LICENSED_TRAIT)}
    record = TraitFile(file, service.url)
    assert record.aggregates == {(node_uuid(1), LICENSED_TRAIT): uuid_of("windows")}
    assert read_provider_values_from_peer(peer_service, 1, "traits") == {
        LICENSED_TRAIT,
        "HW_CPU_X86_AVX2",
    }
    set_metadata(sqlite_database, "windows", {f"trait:{LICENSED_TRAIT}": None})
    with open_trait_file(file, service.url) as record:
        synced = sync_traits(make_host_reader, RemotePlacement(service, record))
    assert synced.removed == {(node_uuid(1), LICENSED_TRAIT)}
    assert read_provider_values_from_peer(peer_service, 1, "traits") == {"HW_CPU_X86_AVX2"}
    assert read_provider_values_from_peer(peer_service, 2, "traits") == {LICENSED_TRAIT}
