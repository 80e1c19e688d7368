# SPDX-License-Identifier: Apache-2.0
"""Both services write to one database in turns, and each reads what the other wrote."""

from collections.abc import Callable, Iterator
from itertools import cycle
from uuid import uuid4

import pytest

from tests.coexistence.conftest import peer_url
from tests.differential.exchange import Request
from tests.differential.sides import Ours, Peer, Side
from tests.support.versions import PEER_LATEST

pytestmark = pytest.mark.system

Ask = Callable[..., dict]

#: Reshaping is for services.
ROLES = {"X-Roles": "admin,service"}


def build_request(
    method: str, target: str, document: object = ..., version: str = PEER_LATEST
) -> Request:
    return Request(method, target, version=version, document=document, headers=ROLES)


@pytest.fixture(scope="module")
def both_services(shared_url: str) -> Iterator[tuple[Ours, Peer]]:
    ours, peer = Ours(shared_url), Peer(peer_url(shared_url))
    yield ours, peer
    ours.close()
    peer.close()


@pytest.fixture(params=[0, 1], ids=["ours-first", "peer-first"])
def make_writer(request: pytest.FixtureRequest, both_services: tuple[Side, Side]) -> Ask:
    turns = cycle(both_services if request.param == 0 else both_services[::-1])

    def write(method: str, target: str, document: object = ...) -> dict:
        reply = next(turns).ask(build_request(method, target, document))
        assert reply.status in {200, 201, 204}, (method, target, reply)
        return reply.document

    return write


@pytest.fixture
def make_reader(both_services: tuple[Side, Side]) -> Ask:
    def read(target: str, version: str = PEER_LATEST) -> dict:
        ours, peer = (
            side.ask(build_request("GET", target, version=version)) for side in both_services
        )
        assert (ours.status, peer.status) == (200, 200), target
        assert in_canonical_order(ours.document) == in_canonical_order(peer.document), target
        return ours.document

    return read


def in_canonical_order(document: object) -> object:
    if isinstance(document, dict):
        return {key: in_canonical_order(value) for key, value in document.items()}
    if isinstance(document, list):
        return sorted((in_canonical_order(one) for one in document), key=repr)
    return document


def allocations_body(
    provider: str, amount: int, generation: int | None, kind: str, project: str = "project"
) -> dict:
    return {
        "allocations": {provider: {"resources": {"VCPU": amount}}},
        "project_id": project,
        "user_id": "user",
        "consumer_generation": generation,
        "consumer_type": kind,
    }


def test_both_services_change_a_consumer_alternately(make_writer, make_reader):
    provider = create_host(make_writer, make_reader)
    consumer = str(uuid4())
    for generation, amount in enumerate((1, 4, 2, 8, 3)):
        body = allocations_body(provider, amount, generation or None, "INSTANCE")
        make_writer("PUT", f"/allocations/{consumer}", body)
        held = make_reader(f"/allocations/{consumer}")
        assert held["allocations"][provider]["resources"] == {"VCPU": amount}
        assert held["consumer_generation"] == generation + 1
        assert make_reader(f"/resource_providers/{provider}/usages")["usages"] == {"VCPU": amount}
    make_writer("DELETE", f"/allocations/{consumer}")
    assert make_reader(f"/allocations/{consumer}")["allocations"] == {}


def test_names_created_by_one_service_are_accepted_by_the_other(make_writer, make_reader):
    provider = create_host(make_writer, make_reader)
    aggregate = str(uuid4())
    mark = uuid4().hex[:8].upper()
    for turn in range(4):
        custom = f"CUSTOM_{mark}_{turn}"
        make_writer("PUT", f"/resource_classes/{custom}")
        make_writer("PUT", f"/traits/{custom}")
        consumer = str(uuid4())
        make_writer(
            "PUT",
            f"/allocations/{consumer}",
            allocations_body(provider, 1, None, f"TURN_{turn % 2}", project=mark),
        )
        assert make_reader(f"/allocations/{consumer}")["consumer_type"] == f"TURN_{turn % 2}"
        generation = make_reader(f"/resource_providers/{provider}")["generation"]
        make_writer(
            "PUT",
            f"/resource_providers/{provider}/traits",
            {"resource_provider_generation": generation, "traits": [custom, "HW_CPU_X86_AVX2"]},
        )
        make_writer(
            "PUT",
            f"/resource_providers/{provider}/aggregates",
            {"resource_provider_generation": generation + 1, "aggregates": [aggregate]},
        )
        assert make_reader(f"/resource_providers/{provider}/aggregates")["aggregates"] == [
            aggregate
        ]
        assert custom in make_reader(f"/resource_providers/{provider}/traits")["traits"]
        assert make_reader(f"/allocation_candidates?resources=VCPU:1&required={custom}")[
            "allocation_requests"
        ]
    # From 1.38 on the peer answers this with 500 on PostgreSQL.
    assert make_reader(f"/usages?project_id={mark}", version="1.37")["usages"] == {"VCPU": 4}
    make_reader("/resource_classes")
    assert len(make_reader(f"/traits?name=startswith:CUSTOM_{mark}")["traits"]) == 4


def test_stale_generation_is_rejected_by_the_other_service(both_services, make_writer, make_reader):
    provider = create_host(make_writer, make_reader)
    for side in both_services:
        generation = make_reader(f"/resource_providers/{provider}")["generation"]
        total = {"total": 20 + generation}
        body = {"resource_provider_generation": generation, "inventories": {"VCPU": total}}
        make_writer("PUT", f"/resource_providers/{provider}/inventories", body)
        late = side.ask(build_request("PUT", f"/resource_providers/{provider}/inventories", body))
        assert (late.status, late.error["code"]) == (409, "placement.concurrent_update")
    make_reader(f"/resource_providers/{provider}/inventories")


def test_trees_and_reshapes_are_visible_to_the_other_service(make_writer, make_reader):
    root = create_host(make_writer, make_reader)
    consumer = str(uuid4())
    make_writer("PUT", f"/allocations/{consumer}", allocations_body(root, 4, None, "INSTANCE"))
    child = str(uuid4())
    make_writer(
        "POST",
        "/resource_providers",
        {"name": f"child-{child}", "uuid": child, "parent_provider_uuid": root},
    )
    for source, target in ((root, child), (child, root)):
        make_writer("POST", "/reshaper", reshaper_body(make_reader, consumer, source, target))
        assert set(make_reader(f"/allocations/{consumer}")["allocations"]) == {target}
        assert make_reader(f"/resource_providers/{source}/inventories")["inventories"] == {}
        assert make_reader(f"/resource_providers?in_tree={root}")["resource_providers"]
        candidates = make_reader(f"/allocation_candidates?resources=VCPU:1&in_tree={root}")
        assert len(candidates["allocation_requests"]) == 1


def create_host(write: Ask, read: Ask) -> str:
    uuid = str(uuid4())
    write("POST", "/resource_providers", {"name": f"host-{uuid}", "uuid": uuid})
    body = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 16}}}
    write("PUT", f"/resource_providers/{uuid}/inventories", body)
    assert read(f"/resource_providers/{uuid}")["generation"] == 1
    return uuid


def reshaper_body(read: Ask, consumer: str, source: str, target: str) -> dict:
    held = read(f"/allocations/{consumer}")
    inventories = {}
    for provider in (source, target):
        there = read(f"/resource_providers/{provider}/inventories")
        inventories[provider] = {
            "resource_provider_generation": there["resource_provider_generation"],
            "inventories": {"VCPU": {"total": 16}} if provider == target else {},
        }
    return {
        "inventories": inventories,
        "allocations": {
            consumer: {
                "allocations": {target: {"resources": held["allocations"][source]["resources"]}},
                "project_id": held["project_id"],
                "user_id": held["user_id"],
                "consumer_generation": held["consumer_generation"],
                "consumer_type": held["consumer_type"],
            }
        },
    }
