# SPDX-License-Identifier: Apache-2.0
"""One selection of a host with a claim, as a client of each service makes it, and what came of all.

Of ours it is ``POST /select_destinations``. Of openstack-placement it is what a nova-scheduler
asks of it: candidates, then the claim of one of them, and of another where that has been taken.
"""

import statistics
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple
from urllib.parse import urlencode
from uuid import UUID

import orjson
from both_servers import Address, Request, Server, WrongAnswer
from load import open_database
from os_resource_classes import STANDARDS
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import func, select

from placement_sched.db import tables

PLACED, NONE_FITS, GAVE_UP = "placed", "none fits", "gave up"
#: After how many candidates taken by others a nova-scheduler's client asks for no further one.
ATTEMPTS = 10


@dataclass(frozen=True, slots=True)
class Flavor:
    """What an instance needs."""

    vcpus: int = 2
    memory_mb: int = 4096
    root_gb: int = 20

    @property
    def resources(self) -> dict[str, int]:
        """Return the amounts by resource class."""
        return {"VCPU": self.vcpus, "MEMORY_MB": self.memory_mb, "DISK_GB": self.root_gb}


@dataclass(frozen=True, slots=True)
class Selected:
    """What came of one selection, in how many milliseconds; ``lost`` claims met others'."""

    consumer: str
    outcome: str
    ms: float
    lost: int = 0


def consumers(seed: str) -> Iterator[str]:
    """Yield uuids of new instances without end, others by each seed."""
    random = Random(seed)
    while True:
        yield str(UUID(int=random.getrandbits(128), version=4))


def selected(
    name: str, address: Address, flavor: Flavor, consumer: str, *, claim: bool = True
) -> Selected:
    """Let the server select and claim a host; ours may be asked without a claim.

    Raises :class:`WrongAnswer` for a status that neither grants nor refuses it.
    """
    if name == "ours":
        return _by_ours(address, flavor, consumer, claim)
    return _by_placement(address, flavor, consumer)


def _by_ours(address: Address, flavor: Flavor, consumer: str, claim: bool) -> Selected:
    spec = {
        "flavor": {"name": "bench", **{part: getattr(flavor, part) for part in flavor.__slots__}},
        "image": {"properties": {"hw_architecture": "x86_64"}},
        "project_id": "bench",
        "instance_uuids": [consumer],
    }
    body = {"request_spec": spec, "claim": claim}
    request = Request("POST", "/scheduler/v1/select_destinations", body)
    address = address._replace(prefix="")
    message = address.message(request)
    began = time.perf_counter()
    reply = address.answer(message)
    ms = (time.perf_counter() - began) * 1000
    if reply.status == 200:
        return Selected(consumer, PLACED, ms)
    code = orjson.loads(reply.body)["errors"][0].get("code") if reply.status == 409 else None
    if code == "scheduler.no_valid_host":
        return Selected(consumer, NONE_FITS, ms)
    if code is None:
        raise WrongAnswer(f"ours, select_destinations: {reply.status} {reply.body[:500]!r}")
    return Selected(consumer, GAVE_UP, ms)


def _by_placement(address: Address, flavor: Flavor, consumer: str) -> Selected:
    terms = {
        "resources": ",".join(f"{name}:{amount}" for name, amount in flavor.resources.items()),
        "root_required": "!COMPUTE_STATUS_DISABLED",
        "limit": 1000,
    }
    message = address.message(Request("GET", f"/allocation_candidates?{urlencode(terms)}"))
    began = time.perf_counter()
    reply = address.answer(message)
    if reply.status != 200:
        raise WrongAnswer(f"peer, candidates: {reply.status} {reply.body[:500]!r}")
    found = orjson.loads(reply.body)["allocation_requests"]
    Random(consumer).shuffle(found)
    outcome, lost = NONE_FITS, 0
    for candidate in found[:ATTEMPTS]:
        claim = {
            "allocations": candidate["allocations"],
            "project_id": "bench",
            "user_id": "bench",
            "consumer_generation": None,
            "consumer_type": "INSTANCE",
        }
        reply = address.ask(Request("PUT", f"/allocations/{consumer}", claim))
        if reply.status == 204:
            outcome = PLACED
            break
        if reply.status != 409:
            raise WrongAnswer(f"peer, claim: {reply.status} {reply.body[:500]!r}")
        lost, outcome = lost + 1, GAVE_UP
    return Selected(consumer, outcome, (time.perf_counter() - began) * 1000, lost)


def release(server: Server, made: Iterable[Selected]) -> None:
    """Delete what the selections claimed."""
    for one in made:
        reply = server.address.ask(Request("DELETE", f"/allocations/{one.consumer}"))
        if one.outcome == PLACED and reply.status != 204:
            raise WrongAnswer(f"{server.name}: an allocation is not there: {reply.status}")


def claims_of(server: Server) -> Counter[str]:
    """Return how many claims of selections our server has won, lost and tried again so far."""
    return _counted(server, "placement_sched_claims_total", "outcome")


def conflicts_of(server: Server) -> Counter[str]:
    """Return what selections of our server met of others so far, by kind."""
    return _counted(server, "placement_sched_conflicts_total", "kind")


def _counted(server: Server, metric: str, label: str) -> Counter[str]:
    """Return what a metric of our server says of selections, by a label of it."""
    reply = server.address._replace(prefix="").ask(Request("GET", "/metrics"))
    found: Counter[str] = Counter()
    for family in text_string_to_metric_families(reply.body.decode()):
        for sample in family.samples:
            if sample.name == metric and sample.labels["api"] == "scheduler":
                found[sample.labels[label]] += int(sample.value)
    return found


def overfull(url: str) -> list[str]:
    """Return what is allocated beyond the capacity of a provider, which must be nothing."""
    return [
        f"provider {one.provider}, {one.resource_class}: {one.used} of {one.capacity}"
        for one in _stocks(url)
        if one.used > one.capacity
    ]


def room_for(url: str, flavor: Flavor) -> int:
    """Return for how many instances of the flavor there is room, on hosts without children."""
    rooms: dict[int, list[int]] = {}
    for one in _stocks(url):
        if amount := flavor.resources.get(one.resource_class):
            left = max(one.capacity - one.used, 0)
            rooms.setdefault(one.provider, []).append(left // amount)
    return sum(min(room) for room in rooms.values())


class _Stock(NamedTuple):
    """What a provider has of a resource class."""

    provider: int
    resource_class: str
    capacity: int
    used: int


def _stocks(url: str) -> list[_Stock]:
    held, stock = tables.allocations.c, tables.inventories.c
    used = (
        select(held.resource_provider_id, held.resource_class_id, func.sum(held.used).label("used"))
        .group_by(held.resource_provider_id, held.resource_class_id)
        .subquery()
    )
    question = select(
        stock.resource_provider_id,
        stock.resource_class_id,
        *(stock.total, stock.reserved, stock.allocation_ratio),
        func.coalesce(used.c.used, 0),
    ).join_from(
        tables.inventories,
        used,
        (stock.resource_provider_id == used.c.resource_provider_id)
        & (stock.resource_class_id == used.c.resource_class_id),
        isouter=True,
    )
    database = open_database(url)
    try:
        with database.read() as connection:
            rows = connection.execute(question).all()
    finally:
        database.dispose()
    return [
        # Rounded down after all, as the ratio is a float.
        _Stock(provider, STANDARDS[one], int((total - reserved) * ratio), int(used))
        for provider, one, total, reserved, ratio, used in rows
    ]


def percentile(figures: Sequence[float], share: float) -> float:
    """Return the figure below which this share of them lies; 0 where there are none."""
    if len(figures) < 2:
        return figures[0] if figures else 0.0
    return statistics.quantiles(figures, n=100, method="inclusive")[round(share * 100) - 1]
