# SPDX-License-Identifier: Apache-2.0
"""Compares the requests of a fleet of nova-computes, alone and with selections of hosts.

``make bench WHAT=fleet``, or ``python bench/fleet.py --help``. Each nova-compute reads the tree of
its provider and the inventories, aggregates, traits and allocations. Every hundredth writes its
inventories. First they send requests without a pause, then at the pace of the fleet while other
clients select hosts.
"""

import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from concurrent.futures import Executor
from statistics import median
from typing import Any, NamedTuple

import harness
import services
from harness import Databases, WrongResponse, percentile
from responses import read_response, require_equal
from selections import (
    PLACED,
    Flavor,
    Selection,
    consumers,
    find_overallocations,
    release,
    select_host,
)
from services import Address, Request, Server
from worlds import ALWAYS_UP, WORLDS, uuid_of

#: Client processes of the nova-computes, and of the selections.
REPORTERS, SELECTORS = 4, 4
#: Worker processes of each server.
WORKERS = 2
#: Seconds between two reports of a nova-compute, and the number of reports between two writes.
PERIOD, WRITES = 60.0, 100
NOUNS = ("inventories", "aggregates", "traits", "allocations")
#: Providers of a nova-compute by kind of cloud.
PROVIDERS = {"flat": 1, "nested": 7}


class Reports(NamedTuple):
    """The milliseconds of the requests of a client process."""

    ms: list[float]
    seconds: float
    #: The last acknowledged inventories by provider.
    written: dict[str, Any]


def _read_tree(root: str) -> Request:
    return Request("GET", f"/resource_providers?in_tree={root}")


def _read_provider(provider: str) -> list[Request]:
    return [Request("GET", f"/resource_providers/{provider}/{noun}") for noun in NOUNS]


def _report(address: Address, hosts: Sequence[int], seconds: float, pace: float | None) -> Reports:
    """Send the requests of nova-computes in turn, ``pace`` nova-computes in a second.

    Without a pace, or late, the next request is sent at once.
    """
    start = time.monotonic()
    ms: list[float] = []
    turn, written = 0, {}

    def send(request: Request, *statuses: int) -> Any:
        milliseconds, reply = address.measure(request, *statuses)
        ms.append(milliseconds)
        return read_response(reply.body) if reply.status == 200 else None

    while (now := time.monotonic()) < start + seconds:
        if pace is not None and (due := start + turn / pace) > now:
            time.sleep(min(due, start + seconds) - now)
            continue
        number = hosts[turn % len(hosts)]
        root, turn = uuid_of("host", number), turn + 1
        inventories: dict[str, Any] = {}
        for provider in send(_read_tree(root))["resource_providers"]:
            held, *_ = [send(request) for request in _read_provider(provider["uuid"])]
            if provider["uuid"] == root:
                inventories = held
        if number % WRITES == 0:
            path = f"/resource_providers/{root}/inventories"
            response = send(Request("PUT", path, _change(inventories)), 200, 409)
            if response is not None:
                written[root] = response["inventories"]
    return Reports(ms, time.monotonic() - start, written)


def _change(held: dict[str, Any]) -> dict[str, Any]:
    """Return inventories with the same capacity, because some hosts are full."""
    inventories = {
        name: {**each, "max_unit": each["max_unit"] ^ 1}
        for name, each in held["inventories"].items()
    }
    return {**held, "inventories": inventories}


def _select_hosts(address: Address, seed: str, seconds: float, pace: float) -> list[Selection]:
    """Select hosts, ``pace`` in a second if the server is fast enough."""
    start, selections = time.monotonic(), []
    for turn, consumer in enumerate(consumers(seed)):
        time.sleep(max(start + turn / pace - time.monotonic(), 0))
        if time.monotonic() >= start + seconds:
            break
        selections.append(select_host(address, Flavor(), consumer))
    return selections


def _send_reports(
    clients: Executor, server: Server, hosts: int, seconds: float, pace: float | None
) -> list[Reports]:
    shares = [range(first, hosts, REPORTERS) for first in range(REPORTERS)]
    futures = [clients.submit(_report, server.address, share, seconds, pace) for share in shares]
    return [future.result() for future in futures]


def _run_round(
    clients: Executor, server: Server, options: Namespace, number: int, written: dict[str, Any]
) -> list[float]:
    """Send reports alone, then with selections, and return the values of the table.

    ``written`` gets the acknowledged inventories.
    """
    cpu = server.cpu_seconds()
    alone = _send_reports(clients, server, options.hosts, options.seconds / 2, None)
    row = [sum(len(each.ms) / each.seconds for each in alone)]
    row.append(sum(len(each.ms) for each in alone) / (server.cpu_seconds() - cpu))
    cpu, pace = server.cpu_seconds(), options.selections / SELECTORS
    seeds = [f"{server.name} {number} {turn}" for turn in range(SELECTORS)]
    futures = [
        clients.submit(_select_hosts, server.address, seed, options.seconds, pace) for seed in seeds
    ]
    pace = options.hosts / PERIOD / REPORTERS
    reports = _send_reports(clients, server, options.hosts, options.seconds, pace)
    selections = [each for future in futures for each in future.result()]
    cpu, seconds = server.cpu_seconds() - cpu, max(each.seconds for each in reports)
    release(server.address, selections)
    placed = sum(selection.outcome == PLACED for selection in selections)
    reads = [ms for each in reports for ms in each.ms]
    times = [each.ms for each in selections]
    for each in (*alone, *reports):
        written |= each.written
    return [
        *(*row, len(reads) / seconds, percentile(reads, 0.5), percentile(reads, 0.99)),
        *(placed / seconds, percentile(times, 0.5), percentile(times, 0.99), cpu / seconds),
    ]


def _compare(
    servers: Sequence[Server], options: Namespace, clients: Executor
) -> list[list[object]]:
    """Send everything to both servers in turns, and return the rows of the table."""
    rounds: dict[str, list[list[float]]] = {server.name: [] for server in servers}
    written: dict[str, Any] = {}
    for server in servers:
        _send_reports(clients, server, options.hosts, 1.0, None)
        release(server.address, [select_host(server.address, Flavor(), uuid_of("warm", 0))])
    for number in range(options.rounds):
        for server in servers if number % 2 else servers[::-1]:
            harness.report_progress(f"{server.name}, round {number + 1}")
            rounds[server.name].append(_run_round(clients, server, options, number, written))
    for provider, inventories in written.items():
        path = f"/resource_providers/{provider}/inventories"
        for server in servers:
            shown = server.address.get(path)["inventories"]
            require_equal(f"{server.name}: {path}", shown, inventories)
    return [[name, *map(median, zip(*rows, strict=True))] for name, rows in rounds.items()]


def main() -> int:
    """Compare the services on each database."""
    parser = harness.Options(__doc__, "postgresql,mariadb", can_omit_peer=True)
    parser.add_argument("--world", choices=PROVIDERS, default="flat", help="(%(default)s)")
    parser.add_sized("--hosts", 10_000, 500, "nova-computes")
    parser.add_argument("--selections", type=float, default=20, help="a second (%(default)s)")
    parser.add_sized("--rounds", 3, 1, "rounds of each server")
    parser.add_sized("--seconds", PERIOD, 6.0, "seconds of a round")
    options = parser.parse()
    requests = 1 + PROVIDERS[options.world] * len(NOUNS) + 1 / WRITES
    columns = (
        *("server", "alone: requests/s", "per core"),
        f"with selections: requests/s of {options.hosts / PERIOD * requests:.0f}",
        *("p50 ms", "p99 ms", "selections/s", "p50 ms", "p99 ms", "cores used"),
    )

    def measure(kind: str, databases: Databases) -> None:
        url = databases.find_or_fill(WORLDS[options.world](options.hosts, seen=ALWAYS_UP))
        with (
            harness.client_processes(REPORTERS + SELECTORS) as clients,
            services.both(url, has_peer=not options.no_peer, workers=WORKERS) as servers,
        ):
            rows = _compare(servers, options, clients)
        if excess := find_overallocations(url.render_as_string(hide_password=False)):
            raise WrongResponse(f"over-allocated: {excess[:5]}")
        table = harness.build_table(columns, rows)
        title = f"{kind}: {options.hosts} nova-computes, {options.world}"
        print(harness.build_section(title, table), flush=True)

    return harness.run_on_databases(options, measure)


if __name__ == "__main__":
    sys.exit(main())
