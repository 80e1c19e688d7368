# SPDX-License-Identifier: Apache-2.0
"""Lets 1, 2, 4 and 8 schedulers select and claim on a database until the cloud is full.

``make bench WHAT=schedulers``, or ``python bench/schedulers.py --help``. Each scheduler of
placement-sched is a server process. openstack-placement has as many workers, and its clients claim
candidates as nova-scheduler does. placement-sched must not over-allocate.
"""

import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial

import harness
import services
from harness import Databases, Finding, Target, WrongResponse, percentile
from selections import (
    GAVE_UP,
    NONE_FITS,
    PLACED,
    Flavor,
    Selection,
    consumers,
    count_claims,
    count_remaining,
    find_overallocations,
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
SELECTIONS_TARGET, LOST_TARGET = Target(60, " a second"), Target(5, " %", is_maximum=True)
#: A row of the table, the values with targets, and the over-allocations.
Result = tuple[list[object], list[Finding], list[str]]
COLUMNS = (
    *("server", "schedulers", "placed", "room left", "selections/s", "CPU ms", "p50 ms"),
    *("p99 ms", "claims lost", "started again", "gave up", "over-allocated"),
)


def _fill(address: Address, seed: str) -> list[Selection]:
    """Select hosts until no host fits, in a client process."""
    selections: list[Selection] = []
    for consumer in consumers(seed):
        selections.append(select_host(address, FLAVOR, consumer))
        last = [each.outcome for each in selections[-MAX_GIVEN_UP:]]
        if last[-1] == NONE_FITS or last == [GAVE_UP] * MAX_GIVEN_UP:
            break
    return selections


def _read_counters(servers: Sequence[Server]) -> tuple[Counter[str], float]:
    """Return the claims of placement-sched, and the CPU time, until now."""
    return count_claims(servers), sum(server.cpu_seconds() for server in servers)


def _measure(database: URL, service: str, schedulers: int) -> Result:
    """Fill a cloud with a number of schedulers of a service."""
    with ExitStack() as stack:
        clients = stack.enter_context(harness.client_processes(schedulers))
        if service == "ours":
            starts = [partial(services.ours, database)] * schedulers
        else:
            starts = [partial(services.peer, database, schedulers)]
        servers = [stack.enter_context(start()) for start in starts]
        for server in servers:
            release(server.address, [select_host(server.address, FLAVOR, uuid_of("warm", 0))])
        addresses = [servers[turn % len(servers)].address for turn in range(schedulers)]
        seeds = [f"{schedulers} {turn}" for turn in range(schedulers)]
        before, start = _read_counters(servers), time.perf_counter()
        selections = [each for share in clients.map(_fill, addresses, seeds) for each in share]
        seconds, after = time.perf_counter() - start, _read_counters(servers)
    claims, cpu = after[0] - before[0], after[1] - before[1]
    times = [each.ms for each in selections]
    outcomes = Counter(each.outcome for each in selections)
    placed = outcomes[PLACED]
    lost = claims["lost"] + sum(each.lost for each in selections)
    percent = 100 * lost / max(placed + lost, 1)
    url = database.render_as_string(hide_password=False)
    excess = find_overallocations(url)
    row = [
        *(service, schedulers, placed, count_remaining(url, FLAVOR), placed / seconds),
        *(1000 * cpu / max(placed, 1), percentile(times, 0.5), percentile(times, 0.99)),
        *(f"{lost} ({percent:.1f} %)", claims["retried"], outcomes[GAVE_UP], len(excess)),
    ]
    name = f"schedulers: {schedulers}"
    findings = [
        Finding(f"selections a second, {name}", placed / seconds, SELECTIONS_TARGET),
        Finding(f"claims lost, {name}", percent, LOST_TARGET),
    ]
    return row, findings, excess


def main() -> int:
    """Fill clouds on each database."""
    parser = harness.Options(__doc__, "postgresql,mariadb", can_omit_peer=True)
    parser.add_sized("--hosts", HOSTS, 10, "hosts of the cloud")
    parser.add_argument("--schedulers", type=int, nargs="+", default=[1, 2, 4, 8])
    options = parser.parse()

    def measure(kind: str, databases: Databases) -> None:
        kinds = ["ours"] if options.no_peer else ["ours", "peer"]
        results: dict[str, list[Result]] = {name: [] for name in kinds}
        for schedulers in options.schedulers:
            for service, group in results.items():
                harness.report_progress(f"{service}, {schedulers} schedulers")
                url = databases.fill_new(FlatWorld(options.hosts, seen=ALWAYS_UP))
                group.append(_measure(url, service, schedulers))
        rows = [row for group in results.values() for row, *_ in group]
        table = harness.build_table(COLUMNS, rows)
        findings = [finding for _, each, _ in results["ours"] for finding in each]
        targets = harness.build_target_table(findings, kind, applies=options.hosts == HOSTS)
        print(harness.build_section(f"{kind}: {options.hosts} hosts", table, targets), flush=True)
        if excess := [line for *_, each in results["ours"] for line in each]:
            raise WrongResponse(f"over-allocated: {excess}")

    return harness.run_on_databases(options, measure)


if __name__ == "__main__":
    sys.exit(main())
