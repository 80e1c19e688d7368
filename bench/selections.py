# SPDX-License-Identifier: Apache-2.0
"""Selections of hosts with each service, and their effects in the database.

placement-sched has ``POST /select_destinations``. With openstack-placement, a client works like
nova-scheduler: it claims candidates until a claim succeeds.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from random import Random
from typing import Any, NamedTuple
from urllib.parse import urlencode

import orjson
from harness import WrongResponse
from load import open_database
from os_resource_classes import STANDARDS
from prometheus_client.parser import text_string_to_metric_families
from services import Address, Request, Server
from sqlalchemy import text
from worlds import random_uuid, uuid_of

PLACED, NONE_FITS, GAVE_UP = "placed", "none fits", "gave up"
#: The number of candidates that a nova-scheduler tries.
MAX_ATTEMPTS = 10
#: The metric of claims.
CLAIMS = "placement_sched_claims_total"


@dataclass(frozen=True, slots=True)
class Flavor:
    """The amounts of an instance."""

    vcpus: int = 2
    memory_mb: int = 4096
    root_gb: int = 20

    @property
    def resources(self) -> dict[str, int]:
        """Return the amounts by resource class."""
        return {"VCPU": self.vcpus, "MEMORY_MB": self.memory_mb, "DISK_GB": self.root_gb}


class Selection(NamedTuple):
    """The outcome of a selection, and the claims that met other claims."""

    consumer: str
    outcome: str
    ms: float
    lost: int = 0


def consumers(seed: str) -> Iterator[str]:
    """Yield uuids of new instances without end."""
    random = Random(seed)
    while True:
        yield random_uuid(random)


def selection_body(flavor: Flavor, instances: int = 1, **fields: Any) -> dict[str, Any]:
    """Return the body of a request for a selection."""
    spec = {
        "flavor": {"name": "bench", **asdict(flavor)},
        "image": {"properties": {"hw_architecture": "x86_64"}},
        "project_id": "bench",
        "num_instances": instances,
    }
    return {"request_spec": spec, **fields}


def select_host(
    address: Address, flavor: Flavor, consumer: str, *, claim: bool = True
) -> Selection:
    """Select and claim a host. placement-sched can also select without a claim."""
    if address.name == "peer":
        return _select_with_placement(address, flavor, consumer)
    body = selection_body(flavor, claim=claim)
    body["request_spec"]["instance_uuids"] = [consumer]
    request = Request("POST", "/scheduler/v1/select_destinations", body)
    ms, reply = address.measure(request, 200, 409)
    if reply.status == 200:
        return Selection(consumer, PLACED, ms)
    code = orjson.loads(reply.body)["errors"][0].get("code")
    if code is None:
        raise WrongResponse(f"ours, select_destinations: {reply.body[:500]!r}")
    return Selection(consumer, NONE_FITS if code == "scheduler.no_valid_host" else GAVE_UP, ms)


def candidates_request(flavor: Flavor, limit: int) -> Request:
    """Return nova-scheduler's query for candidates."""
    terms = {
        "resources": ",".join(f"{name}:{amount}" for name, amount in flavor.resources.items()),
        "root_required": "!COMPUTE_STATUS_DISABLED",
        "limit": limit,
    }
    return Request("GET", f"/allocation_candidates?{urlencode(terms)}")


def claim_request(consumer: str, allocations: Any) -> Request:
    """Return the claim of a new instance."""
    body = {
        "allocations": allocations,
        "project_id": uuid_of("project", 1),
        "user_id": uuid_of("user", 1),
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
    }
    return Request("PUT", f"/allocations/{consumer}", body)


def _select_with_placement(address: Address, flavor: Flavor, consumer: str) -> Selection:
    message = address.message(candidates_request(flavor, 1000))
    start = time.perf_counter()
    reply = address.send(message)
    if reply.status != 200:
        raise WrongResponse(f"peer, candidates: {reply.status} {reply.body[:500]!r}")
    candidates = orjson.loads(reply.body)["allocation_requests"]
    Random(consumer).shuffle(candidates)
    outcome, lost = NONE_FITS, 0
    for candidate in candidates[:MAX_ATTEMPTS]:
        _, reply = address.measure(claim_request(consumer, candidate["allocations"]), 204, 409)
        if reply.status == 204:
            outcome = PLACED
            break
        lost, outcome = lost + 1, GAVE_UP
    return Selection(consumer, outcome, (time.perf_counter() - start) * 1000, lost)


def release(address: Address, selections: Iterable[Selection]) -> None:
    """Delete the claims of selections."""
    for each in selections:
        reply = address.get_response(Request("DELETE", f"/allocations/{each.consumer}"))
        if each.outcome == PLACED and reply.status != 204:
            raise WrongResponse(f"{address.name}: a claim is missing: {reply.status}")


def _time_selection(server: Server, number: int, *, claim: bool) -> float:
    consumer = uuid_of(f"selection {claim}", number)
    selection = select_host(server.address, Flavor(), consumer, claim=claim)
    if selection.outcome != PLACED:
        raise WrongResponse(f"{server.name}: {selection.outcome} although hosts have capacity")
    if claim:
        release(server.address, [selection])
    return selection.ms


def _time_claim(server: Server, number: int) -> float:
    consumer = uuid_of("claim", number)
    _, reply = server.address.measure(candidates_request(Flavor(), 1))
    (candidate,) = orjson.loads(reply.body)["allocation_requests"]
    ms, _ = server.address.measure(claim_request(consumer, candidate["allocations"]), 204)
    server.address.get_response(Request("DELETE", f"/allocations/{consumer}"))
    return ms


#: Functions that return the milliseconds of a selection or claim. They delete the claim.
CALLS: Mapping[str, Callable[[Server, int], float]] = {
    "select_destinations": lambda server, number: _time_selection(server, number, claim=False),
    "select_destinations with a claim": lambda server, number: _time_selection(
        server, number, claim=True
    ),
    "PUT allocations": _time_claim,
}


def count_claims(servers: Iterable[Server]) -> Counter[str]:
    """Return the claims of selections of placement-sched by outcome."""
    values: Counter[str] = Counter()
    for server in servers:
        if server.name == "ours":
            metrics = server.address.get_response(Request("GET", "/metrics")).body.decode()
            for family in text_string_to_metric_families(metrics):
                for sample in family.samples:
                    labels = sample.labels
                    if sample.name == CLAIMS and labels["api"] == "scheduler":
                        values[labels["outcome"]] += int(sample.value)
    return values


_STOCKS = """
    SELECT i.resource_provider_id, i.resource_class_id, i.total, i.reserved, i.allocation_ratio,
        (SELECT coalesce(sum(a.used), 0) FROM allocations a
         WHERE a.resource_provider_id = i.resource_provider_id
         AND a.resource_class_id = i.resource_class_id)
    FROM inventories i
"""


class _Stock(NamedTuple):
    """The inventory of a provider."""

    provider: int
    resource_class: str
    capacity: int
    used: int


def find_overallocations(url: str) -> list[str]:
    """Return inventories with more allocations than capacity."""
    return [
        f"provider {each.provider}, {each.resource_class}: {each.used} of {each.capacity}"
        for each in _read_stocks(url)
        if each.used > each.capacity
    ]


def count_remaining(url: str, flavor: Flavor) -> int:
    """Return the number of instances that still fit on hosts without children."""
    fitting: dict[int, list[int]] = {}
    for each in _read_stocks(url):
        if amount := flavor.resources.get(each.resource_class):
            remaining = max(each.capacity - each.used, 0)
            fitting.setdefault(each.provider, []).append(remaining // amount)
    return sum(min(counts) for counts in fitting.values())


def _read_stocks(url: str) -> list[_Stock]:
    database = open_database(url)
    try:
        with database.read() as connection:
            rows = connection.execute(text(_STOCKS)).all()
    finally:
        database.dispose()
    return [
        _Stock(provider, STANDARDS[kind], int((total - reserved) * ratio), int(amount))
        for provider, kind, total, reserved, ratio, amount in rows
    ]
