# SPDX-License-Identifier: Apache-2.0
"""The barrier test of claims, side by side: ours and openstack-placement on every database.

In each round several processes, released at once, each claim a fresh provider whole. Exactly one
may win. Run by ``make bench WHAT=race``, or ``python -m bench.race --help``.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from pathlib import Path
from uuid import uuid4

from sqlalchemy import make_url

from tests.differential.exchange import Request
from tests.differential.sides import PEER_PYTHON, Ours, Peer, Side
from tests.support.empty_databases import empty_database
from tests.support.processes import run_in_processes

CAPACITY = 8
OURS, PEER = "placement_sched", "openstack-placement"
#: The databases, and the isolation level that the peer's sessions are given there: its own choice
#: is the server's default. Ours always asks for READ COMMITTED itself.
DATABASES = {
    "sqlite": ("sqlite", None),
    "postgresql": ("postgresql", None),
    "mariadb repeatable read": ("mysql", "REPEATABLE READ"),
    "mariadb read committed": ("mysql", "READ COMMITTED"),
}


@dataclass(frozen=True)
class Place:
    """A service on a database, at an isolation level for its sessions."""

    service: str
    url: str
    level: str | None


@dataclass(frozen=True)
class Outcome:
    """What came of the rounds of one service on one database."""

    database: str
    claimants: int
    service: str
    rounds: int
    overfull: int
    unclaimed: int
    most_used: int
    statuses: Counter[int]
    seconds: float

    @property
    def right(self) -> bool:
        """Return whether every round had exactly one winner."""
        return not self.overfull and not self.unclaimed


def open_side(place: Place) -> Ours | Peer:
    """Start the service on the database."""
    if place.service == OURS:
        return Ours(place.url)
    parsed = make_url(place.url)
    if parsed.get_backend_name() == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg2")
    elif place.level is not None:
        parsed = parsed.update_query_dict(
            {"init_command": f"SET SESSION TRANSACTION ISOLATION LEVEL {place.level}"}
        )
    return Peer(parsed.render_as_string(hide_password=False))


def ask(side: Side, method: str, path: str, body: object = ...) -> tuple[int, object]:
    """Return status and document of an answer."""
    reply = side.ask(Request(method, path, version="1.36", document=body))
    return reply.status, reply.document


def claim_whole(
    barrier: Barrier, _which: int, place: Place, providers: list[str]
) -> list[tuple[int, int]]:
    """Claim each provider whole; return the number of each round and the status of its answer."""
    side = open_side(place)
    shown = []
    for number, provider in enumerate(providers):
        body = {
            "allocations": {provider: {"resources": {"VCPU": CAPACITY}}},
            "project_id": "project",
            "user_id": "user",
            "consumer_generation": None,
        }
        barrier.wait(300)
        status, _document = ask(side, "PUT", f"/allocations/{uuid4()}", body)
        shown.append((number, status))
    side.close()
    return shown


def run(name: str, claimants: int, service: str, rounds: int) -> Outcome:
    """Run the rounds of one service on a database of its own."""
    kind, level = DATABASES[name]
    folder = Path(tempfile.mkdtemp(prefix="race-"))
    try:
        with empty_database(kind, folder) as url:
            place = Place(service, url, level)
            side = open_side(place)
            providers = [make_provider(side) for _ in range(rounds)]
            started = time.monotonic()
            shown = run_in_processes(claimants, claim_whole, place, providers)
            seconds = time.monotonic() - started
            used = [usage(side, provider) for provider in providers]
            side.close()
    finally:
        shutil.rmtree(folder)
    return Outcome(
        database=name,
        claimants=claimants,
        service=service,
        rounds=rounds,
        overfull=sum(amount > CAPACITY for amount in used),
        unclaimed=used.count(0),
        most_used=max(used),
        statuses=Counter(status for _number, status in shown),
        seconds=seconds,
    )


def make_provider(side: Side) -> str:
    """Make a provider with nothing allocated; return its uuid."""
    uuid = str(uuid4())
    created, _ = ask(side, "POST", "/resource_providers", {"name": uuid, "uuid": uuid})
    inventory = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": CAPACITY}}}
    stocked, _ = ask(side, "PUT", f"/resource_providers/{uuid}/inventories", inventory)
    if (created, stocked) != (200, 200):
        raise RuntimeError(f"no provider could be made: {created}, {stocked}")
    return uuid


def usage(side: Side, provider: str) -> int:
    """Return how much of the provider is allocated."""
    _status, document = ask(side, "GET", f"/resource_providers/{provider}/usages")
    amount: int = document["usages"]["VCPU"]
    return amount


def rows(outcomes: list[Outcome]) -> Iterator[str]:
    """Yield the lines of a table in Markdown."""
    yield (
        "| database | claimants | service | rounds | over-allocated | no claim won | most used of "
        f"{CAPACITY} | answers | seconds |"
    )
    yield "| --- | --: | --- | --: | --: | --: | --: | --- | --: |"
    for one in outcomes:
        answers = ", ".join(f"{number} x {status}" for status, number in one.statuses.most_common())
        yield (
            f"| {one.database} | {one.claimants} | {one.service} | {one.rounds} | {one.overfull} "
            f"| {one.unclaimed} | {one.most_used} | {answers} | {one.seconds:.0f} |"
        )


def parse(arguments: list[str]) -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--claimants", type=int, nargs="+", default=[2, 6])
    parser.add_argument("--databases", nargs="+", choices=DATABASES, default=list(DATABASES))
    parser.add_argument("--services", nargs="+", choices=[OURS, PEER], default=[OURS, PEER])
    return parser.parse_args(arguments)


def main() -> int:
    """Run all, print the table; 1 when ours was wrong in any round."""
    asked = parse(sys.argv[1:])
    if PEER in asked.services and not PEER_PYTHON.exists():
        sys.stderr.write(f"there is no {PEER_PYTHON}; make peer installs openstack-placement\n")
        return 2
    outcomes = []
    for name in asked.databases:
        for claimants in asked.claimants:
            for service in asked.services:
                sys.stderr.write(f"{name}: {claimants} claimants, {service}\n")
                outcomes.append(run(name, claimants, service, asked.rounds))
    sys.stdout.write("\n".join(rows(outcomes)) + "\n")
    return int(any(one.service == OURS and not one.right for one in outcomes))


if __name__ == "__main__":
    sys.exit(main())
