# SPDX-License-Identifier: Apache-2.0
"""Lets 1, 2, 4 and 8 schedulers select and claim on a database until the cloud is full.

``make bench WHAT=schedulers``, or ``python bench/schedulers.py --help``. Each scheduler of
placement-sched is a server process. openstack-placement has as many workers, and its clients claim
candidates as nova-scheduler does. placement-sched must not over-allocate.
"""

import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import harness
import services
from harness import Databases, Finding, Target, WrongAnswer, at_most, percentile
from selections import (
    GAVE_UP,
    NONE_FITS,
    PLACED,
    Flavor,
    Selection,
    consumers,
    count_remaining,
    find_overallocations,
    read_counter,
    release,
    select_host,
)
from services import Address
from sqlalchemy.engine import URL
from worlds import ALWAYS_UP, FlatWorld, uuid_of

HOSTS = 200
FLAVOR = Flavor(4, 16_384, 50)
#: A client that gave up this number of selections in a row stops.
MAX_GIVEN_UP = 20
#: Selections of all schedulers in a second, and the percentage of claims that met other claims.
SELECTIONS_TARGET, LOST_TARGET = Target(60, 120, " a second"), at_most(5, 1, " %")


class Share(NamedTuple):
    """The selections of a client, with two times of the monotonic clock."""

    start: float
    end: float
    selections: list[Selection]


class Result(NamedTuple):
    """The outcome of a number of schedulers of a service."""

    service: str
    schedulers: int
    selections: list[Selection]
    seconds: float
    cpu_seconds: float
    claims: Counter[str]
    conflicts: Counter[str]
    remaining: int
    overallocations: list[str]

    def count(self, outcome: str) -> int:
        """Return the number of selections with an outcome."""
        return sum(each.outcome == outcome for each in self.selections)

    @property
    def lost(self) -> int:
        """Return the number of claims that met other claims."""
        return self.claims["lost"] + sum(each.lost for each in self.selections)

    def row(self) -> list[object]:
        """Return a row of the table."""
        times, placed = [each.ms for each in self.selections], self.count(PLACED)
        conflicts = ", ".join(f"{n} {kind}" for kind, n in self.conflicts.most_common())
        return [
            *(self.service, self.schedulers, placed, self.remaining, placed / self.seconds),
            1000 * self.cpu_seconds / max(placed, 1),
            *(percentile(times, 0.5), percentile(times, 0.99)),
            f"{self.lost} ({100 * self.lost / max(placed + self.lost, 1):.1f} %)",
            *(self.claims["retried"], conflicts, self.count(GAVE_UP), len(self.overallocations)),
        ]

    def findings(self) -> list[Finding]:
        """Return the values that have targets."""
        if self.service != "ours":
            return []
        name, placed = f"schedulers: {self.schedulers}", self.count(PLACED)
        rate = placed / self.seconds
        lost = 100 * self.lost / max(placed + self.lost, 1)
        findings = [Finding(f"selections a second, {name}", rate, SELECTIONS_TARGET)]
        if self.schedulers > 1:
            findings.append(Finding(f"claims lost, {name}", lost, LOST_TARGET))
        return findings


def _fill(address: Address, seed: str) -> Share:
    """Select hosts until no host fits, in a client process."""
    start, selections, given_up = time.monotonic(), [], 0
    for consumer in consumers(seed):
        selections.append(select_host(address, FLAVOR, consumer))
        outcome = selections[-1].outcome
        given_up = given_up + 1 if outcome == GAVE_UP else 0
        if outcome == NONE_FITS or given_up == MAX_GIVEN_UP:
            break
    return Share(start, time.monotonic(), selections)


def _measure(database: URL, service: str, schedulers: int) -> Result:
    url = database.render_as_string(hide_password=False)
    with ExitStack() as stack:
        spawning = multiprocessing.get_context("spawn")
        clients = stack.enter_context(ProcessPoolExecutor(schedulers, spawning))
        if service == "ours":
            starts = [partial(services.ours, database)] * schedulers
        else:
            starts = [partial(services.peer, database, schedulers)]
        servers = [stack.enter_context(start()) for start in starts]
        # Wait until all client processes run, and let each server answer once.
        list(clients.map(time.sleep, [1.0] * schedulers))
        for server in servers:
            release(server.address, [select_host(server.address, FLAVOR, uuid_of("warm", 0))])
        read_claims = partial(read_counter, servers, "placement_sched_claims_total", "outcome")
        read_conflicts = partial(read_counter, servers, "placement_sched_conflicts_total", "kind")
        claims, conflicts = read_claims(), read_conflicts()
        cpu = sum(server.cpu_seconds() for server in servers)
        addresses = [servers[turn % len(servers)].address for turn in range(schedulers)]
        seeds = [f"{schedulers} {turn}" for turn in range(schedulers)]
        shares = list(clients.map(_fill, addresses, seeds))
        cpu = sum(server.cpu_seconds() for server in servers) - cpu
        claims, conflicts = read_claims() - claims, read_conflicts() - conflicts
    seconds = max(share.end for share in shares) - min(share.start for share in shares)
    selections = [each for share in shares for each in share.selections]
    remaining, excess = count_remaining(url, FLAVOR), find_overallocations(url)
    return Result(
        *(service, schedulers, selections, seconds, cpu, claims, conflicts, remaining, excess)
    )


def _print_results(kind: str, hosts: int, results: Sequence[Result]) -> None:
    columns = (
        *("server", "schedulers", "placed", "room left", "selections/s", "CPU ms", "p50 ms"),
        *("p99 ms", "claims lost", "started again", "conflicts", "gave up", "over-allocated"),
    )
    promised = kind in harness.TARGET_DATABASES
    findings = [
        replace(finding, applies=hosts == HOSTS, promised=promised)
        for each in results
        for finding in each.findings()
    ]
    table = harness.build_table(columns, [each.row() for each in results])
    targets = harness.build_target_table(findings)
    print(harness.build_section(f"{kind}: {hosts} hosts", table, targets), flush=True)


def main() -> int:
    """Fill clouds on each database."""
    parser = harness.Options(__doc__, default_databases="postgresql,mariadb")
    parser.add_sized("--hosts", HOSTS, 10, "hosts of the cloud")
    parser.add_argument("--schedulers", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--no-peer", action="store_true", help="placement-sched only")
    options = parser.parse()
    if not options.no_peer:
        services.require_peer()

    def measure(kind: str, databases: Databases) -> None:
        results = []
        for schedulers in options.schedulers:
            for service in ("ours",) if options.no_peer else ("ours", "peer"):
                harness.report_progress(f"{service}, {schedulers} schedulers")
                world = FlatWorld(options.hosts, seen=ALWAYS_UP)
                results.append(_measure(databases.fill_new(world), service, schedulers))
        _print_results(kind, options.hosts, results)
        for each in results:
            if each.service == "ours" and each.overallocations:
                raise WrongAnswer(f"over-allocated by {each.schedulers}: {each.overallocations}")

    return harness.run_on_databases(options, measure)


if __name__ == "__main__":
    sys.exit(main())
