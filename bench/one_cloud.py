# SPDX-License-Identifier: Apache-2.0
"""What ours takes in one cloud that is there already, however large.

``python bench/load.py URL --world sparse --size 1000000``, then ``python bench/one_cloud.py URL``.
With ``OS_PLACEMENT__PROVIDERS_IN_MEMORY`` true or false in the environment.
"""

import argparse
import os
import shlex
import statistics
import sys
import time
from collections.abc import Callable

import both_servers
import growth
import questions
from both_servers import Request, Server
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy.engine import make_url
from worlds.flat import FlatWorld
from worlds.rows import uuid_of

#: Seconds that the server gets to read a cloud into memory.
PATIENCE = 600.0


def main() -> None:
    """Ask everything in turn, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="SQLAlchemy URL of a database that holds a cloud of load.py")
    parser.add_argument("--size", type=int, default=1_000_000, help="its hosts (%(default)s)")
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    print(f"`{shlex.join(sys.argv)}`, load average {os.getloadavg()[0]:.1f}\n")
    print("| ms | first | median | best | CPU |\n| --- | --: | --: | --: | --: |", flush=True)
    with both_servers.ours(make_url(given.url)) as server:
        print(f"| s until all is in memory | {_awaited(server):.0f} | | | |", flush=True)
        print(f"| resident MB at the start | {server.resident_mb():.0f} | | | |", flush=True)
        for name, ask in _asked(given.size):
            _show(name, server, ask, given.rounds)
        print(f"| resident MB at the end | {server.resident_mb():.0f} | | | |", flush=True)
        print(f"| peak MB | {server.peak_mb():.0f} | | | |", flush=True)


def _asked(size: int) -> list[tuple[str, Callable[[Server, int], float]]]:
    asked = [(one.name, one.path) for one in questions.flat(FlatWorld(size))]
    # All candidates of such a cloud take minutes to name; and the trait is not known there.
    left_out = {"no limit", "no match: trait"}
    paths = [(name, path) for name, path in asked if name not in left_out]
    host = uuid_of("host", size // 2)
    reads = ("inventories", "traits", "aggregates", "allocations", "usages")
    paths += [(noun, f"/resource_providers/{host}/{noun}") for noun in reads]
    paths.append(("?in_tree=", f"/resource_providers?in_tree={host}"))
    calls = [
        (name, lambda server, number, call=call: call(server, uuid_of("call", number)))
        for name, call in growth.CALLS.items()
    ]
    return [(name, _getting(path)) for name, path in paths] + calls


def _awaited(server: Server) -> float:
    """Return the seconds until the server has read the providers into memory, 0 if it does not."""
    began = time.monotonic()
    if os.environ.get("OS_PLACEMENT__PROVIDERS_IN_MEMORY", "").lower() != "true":
        return 0.0
    address = server.address._replace(prefix="")
    while time.monotonic() < began + PATIENCE:
        server.get("/allocation_candidates?resources=VCPU:1&limit=1")
        shown = address.ask(Request("GET", "/metrics")).body.decode()
        families = text_string_to_metric_families(shown)
        if any(
            sample.name == "placement_sched_mirror_providers" and sample.value
            for family in families
            for sample in family.samples
        ):
            return time.monotonic() - began
        time.sleep(0.5)
    return float("nan")


def _getting(path: str) -> Callable[[Server, int], float]:
    def get(server: Server, _number: int) -> float:
        message = server.address.message(Request("GET", path))
        began = time.perf_counter()
        reply = server.address.answer(message)
        ms = (time.perf_counter() - began) * 1000
        return ms if reply.status == 200 else float("nan")

    return get


def _show(name: str, server: Server, ask: Callable[[Server, int], float], rounds: int) -> None:
    first = ask(server, 0)
    before, times = server.cpu_seconds(), [ask(server, number + 1) for number in range(rounds)]
    cpu = (server.cpu_seconds() - before) * 1000 / rounds
    shown = f"{first:.0f} | {statistics.median(times):.1f} | {min(times):.1f} | {cpu:.1f}"
    print(f"| {name} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
