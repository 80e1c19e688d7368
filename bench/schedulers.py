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
from services import Address, Server
from sqlalchemy.engine import URL
from worlds import ALWAYS_UP, FlatWorld, uuid_of

HOSTS = 200
FLAVOR = Flavor(4, 16_384, 50)
#: A client that gave up this number of selections in a row stops.
MAX_GIVEN_UP = 20
#: Selections of all schedulers in a second, and the percentage of claims that met other claims.
SELECTIONS_TARGET, LOST_TARGET = Target(60, 120, " a second"), at_most(5, 1, " %")


COLUMNS = (
    *("server", "schedulers", "placed", "room left", "selections/s", "CPU ms", "p50 ms"),
    *("p99 ms", "claims lost", "started again", "conflicts", "gave up", "over-allocated"),
)


class Result(NamedTuple):
    """A row of the table, the values with targets, and the over-allocations."""

    row: list[object]
    findings: list[Finding]
    overallocations: list[str]


def _fill(address: Address, seed: str) -> list[Selection]:
    """Select hosts until no host fits, in a client process."""
    selections: list[Selection] = []
    for consumer in consumers(seed):
        selections.append(select_host(address, FLAVOR, consumer))
        last = [each.outcome for each in selections[-MAX_GIVEN_UP:]]
        if last[-1] == NONE_FITS or last == [GAVE_UP] * MAX_GIVEN_UP:
            break
    return selections


def _read_counters(servers: Sequence[Server]) -> tuple[Counter[str], Counter[str], float]:
    """Return the claims and conflicts of placement-sched, and the CPU time, until now."""
    claims = read_counter(servers, "placement_sched_claims_total", "outcome")
    conflicts = read_counter(servers, "placement_sched_conflicts_total", "kind")
    return claims, conflicts, sum(server.cpu_seconds() for server in servers)


def _measure(database: URL, service: str, schedulers: int) -> Result:
    """Fill a cloud with a number of schedulers of a service."""
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
        addresses = [servers[turn % len(servers)].address for turn in range(schedulers)]
        seeds = [f"{schedulers} {turn}" for turn in range(schedulers)]
        before, start = _read_counters(servers), time.perf_counter()
        selections = [each for share in clients.map(_fill, addresses, seeds) for each in share]
        seconds, after = time.perf_counter() - start, _read_counters(servers)
    claims, conflicts, cpu = after[0] - before[0], after[1] - before[1], after[2] - before[2]
    times = [each.ms for each in selections]
    outcomes = Counter(each.outcome for each in selections)
    placed = outcomes[PLACED]
    lost = claims["lost"] + sum(each.lost for each in selections)
    percent = 100 * lost / max(placed + lost, 1)
    kinds = ", ".join(f"{number} {kind}" for kind, number in conflicts.most_common())
    url = database.render_as_string(hide_password=False)
    excess = find_overallocations(url)
    row = [
        *(service, schedulers, placed, count_remaining(url, FLAVOR), placed / seconds),
        *(1000 * cpu / max(placed, 1), percentile(times, 0.5), percentile(times, 0.99)),
        *(f"{lost} ({percent:.1f} %)", claims["retried"], kinds, outcomes[GAVE_UP], len(excess)),
    ]
    name = f"schedulers: {schedulers}"
    findings = [
        Finding(f"selections a second, {name}", placed / seconds, SELECTIONS_TARGET),
        Finding(f"claims lost, {name}", percent, LOST_TARGET),
    ]
    return Result(row, findings, excess)


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
        results: dict[str, list[Result]] = {"ours": []}
        if not options.no_peer:
            results["peer"] = []
        for schedulers in options.schedulers:
            for service, group in results.items():
                harness.report_progress(f"{service}, {schedulers} schedulers")
                url = databases.fill_new(FlatWorld(options.hosts, seen=ALWAYS_UP))
                group.append(_measure(url, service, schedulers))
        table = harness.build_table(
            COLUMNS, [each.row for group in results.values() for each in group]
        )
        findings = [finding for each in results["ours"] for finding in each.findings]
        targets = harness.build_target_table(findings, kind, applies=options.hosts == HOSTS)
        print(harness.build_section(f"{kind}: {options.hosts} hosts", table, targets), flush=True)
        if excess := [line for each in results["ours"] for line in each.overallocations]:
            raise WrongAnswer(f"over-allocated: {excess}")

    return harness.run_on_databases(options, measure)


if __name__ == "__main__":
    sys.exit(main())
