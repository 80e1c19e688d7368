# SPDX-License-Identifier: Apache-2.0
"""Simultaneous claims with placement_sched and openstack-placement.

``make bench WHAT=race``, or ``python bench/race.py --help``. In each round, several processes claim
a whole provider at the same time. Exactly a single claim may succeed. The exit status is 1 if
placement_sched was wrong in any round.
"""

import sys
from collections import Counter
from multiprocessing.synchronize import Barrier
from typing import Any, NamedTuple
from uuid import uuid4

import harness
import services
from sqlalchemy import make_url

from tests.differential.exchange import Request
from tests.differential.sides import OpenStackPlacementPeer, OwnPlacement, Side
from tests.support.processes import run_in_processes

CAPACITY = 8
OURS, PEER = "placement_sched", "openstack-placement"
#: The isolation levels of the peer's sessions. It uses the default of the server, while
#: placement_sched always sets READ COMMITTED.
LEVELS = {"mariadb": ("REPEATABLE READ", "READ COMMITTED")}


class Place(NamedTuple):
    """A service on a database, with the isolation level of its sessions."""

    service: str
    url: str
    level: str | None

    def open(self) -> OwnPlacement | OpenStackPlacementPeer:
        """Start the service."""
        if self.service == OURS:
            return OwnPlacement(self.url)
        url = make_url(self.url)
        if self.level is not None:
            command = f"SET SESSION TRANSACTION ISOLATION LEVEL {self.level}"
            url = url.update_query_dict({"init_command": command})
        return OpenStackPlacementPeer(services.peer_url(url))


def _send(side: Side, method: str, path: str, body: object = ...) -> tuple[int, Any]:
    reply = side.send_request(Request(method, path, version="1.36", document=body))
    return reply.status, reply.document


def _claim_providers(
    barrier: Barrier, _process: int, place: Place, providers: list[str]
) -> list[int]:
    """Claim each provider as a whole, and return the statuses."""
    side, statuses = place.open(), []
    for provider in providers:
        body = {
            "allocations": {provider: {"resources": {"VCPU": CAPACITY}}},
            "project_id": "project",
            "user_id": "user",
            "consumer_generation": None,
        }
        barrier.wait(300)
        statuses.append(_send(side, "PUT", f"/allocations/{uuid4()}", body)[0])
    side.close()
    return statuses


def _make_provider(side: Side) -> str:
    uuid = str(uuid4())
    created, _ = _send(side, "POST", "/resource_providers", {"name": uuid, "uuid": uuid})
    inventory = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": CAPACITY}}}
    stocked, _ = _send(side, "PUT", f"/resource_providers/{uuid}/inventories", inventory)
    if (created, stocked) != (200, 200):
        raise RuntimeError(f"no provider could be made: {created}, {stocked}")
    return uuid


def _run(place: Place, claimants: int, rounds: int) -> list[object]:
    """Run the rounds of a service on an empty database, and return a row of the table."""
    side = place.open()
    providers = [_make_provider(side) for _ in range(rounds)]
    statuses = Counter(run_in_processes(claimants, _claim_providers, place, providers))
    paths = [f"/resource_providers/{provider}/usages" for provider in providers]
    used = [_send(side, "GET", path)[1]["usages"]["VCPU"] for path in paths]
    side.close()
    excess, unclaimed = sum(amount > CAPACITY for amount in used), used.count(0)
    responses = ", ".join(f"{number} x {status}" for status, number in statuses.most_common())
    return [place.level, claimants, place.service, rounds, excess, unclaimed, max(used), responses]


def main() -> int:
    """Run all rounds, and print a table for each database."""
    parser = harness.Options(__doc__, "sqlite,postgresql,mariadb")
    parser.add_sized("--rounds", 300, 10, "rounds of each service")
    options = parser.parse()
    columns = (
        *("isolation level", "claimants", "service", "rounds", "over-allocated", "no claim won"),
        *(f"most used of {CAPACITY}", "responses"),
    )

    def measure(kind: str, databases: harness.Databases) -> None:
        rows = []
        for level in LEVELS.get(kind, (None,)):
            for claimants in (2, 6):
                for service in (OURS, PEER):
                    harness.report_progress(f"{kind}: {claimants} claimants, {service}")
                    place = Place(service, databases.make_empty(), level)
                    rows.append(_run(place, claimants, options.rounds))
        print(harness.build_section(kind, harness.build_table(columns, rows)), flush=True)
        if any(row[2] == OURS and (row[4] or row[5]) for row in rows):
            raise harness.WrongResponse("a claim of placement_sched was wrong")

    return harness.run_on_databases(options, measure)


if __name__ == "__main__":
    sys.exit(main())
