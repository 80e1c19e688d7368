# SPDX-License-Identifier: Apache-2.0
"""Measures placement-sched on a cloud that is loaded already, of any size.

``python bench/load.py URL --world sparse --size 1000000``, then ``python bench/one_cloud.py URL``,
with ``OS_PLACEMENT__PROVIDERS_IN_MEMORY`` true or false in the environment.
"""

import argparse
import os
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import harness
import queries
import services
from harness import Times
from selections import CALLS
from services import Request, Server
from sqlalchemy.engine import make_url
from worlds import FlatWorld, uuid_of

#: Seconds for the server to read a cloud into its cache.
MAX_WAIT = 600.0
#: A query without a limit takes minutes, and the cloud does not have the trait.
LEFT_OUT = {"no limit", "no match: trait"}

Call = Callable[[Server, int], float]


def send_get(path: str) -> Call:
    """Return a function that reads a path and returns milliseconds."""
    return lambda server, _number: server.address.measure(Request("GET", path))[0]


def measure_calls(
    servers: Mapping[str, Server], calls: Mapping[str, Call], rounds: int
) -> Iterator[tuple[str, dict[str, Times]]]:
    """Yield name and times of each call, which all servers answer in turns."""
    clocks = {name: server.cpu_seconds for name, server in servers.items()}
    for name, call in calls.items():
        harness.report_progress(name)
        turns = {key: partial(call, server) for key, server in servers.items()}
        yield name, harness.take_turns(turns, rounds, warm_up=2, clocks=clocks)


def _build_calls() -> dict[str, Call]:
    paths = {query.name: query.paths[0] for query in queries.flat(FlatWorld())}
    provider = f"/resource_providers/{uuid_of('host', queries.FORCED)}"
    for noun in ("inventories", "traits", "aggregates", "allocations", "usages"):
        paths[noun] = f"{provider}/{noun}"
    paths["?in_tree="] = provider.replace("s/", "s?in_tree=")
    gets = {name: send_get(path) for name, path in paths.items() if name not in LEFT_OUT}
    return gets | CALLS


def _wait_for_cache(server: Server) -> float:
    """Return the seconds until the server has the providers in its cache, 0 without a cache."""
    start = time.monotonic()
    if os.environ.get("OS_PLACEMENT__PROVIDERS_IN_MEMORY", "").lower() != "true":
        return 0.0
    while time.monotonic() < start + MAX_WAIT:
        server.address.get("/allocation_candidates?resources=VCPU:1&limit=1")
        metrics = server.address.get_response(Request("GET", "/metrics")).body.decode()
        name = "placement_sched_provider_cache_providers"
        lines = [line for line in metrics.splitlines() if line.startswith(name)]
        if any(float(line.rpartition(" ")[2]) for line in lines):
            return time.monotonic() - start
        time.sleep(0.5)
    return float("nan")


def main() -> None:
    """Send each request several times, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="SQLAlchemy URL of a database that holds a cloud of load.py")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    with services.ours(make_url(options.url)) as server:
        rows = [("s until all is in memory", f"{_wait_for_cache(server):.0f}", None, None)]
        rows.append(("resident MB at the start", f"{server.resident_mb():.0f}", None, None))
        for name, times in measure_calls({"ours": server}, _build_calls(), options.rounds):
            ours = times["ours"]
            rows.append((name, ours.median, ours.best, ours.cpu_ms))
        rows.append(("resident MB at the end", f"{server.resident_mb():.0f}", None, None))
    table = harness.build_table(("ms", "median", "best", "CPU"), rows)
    print(harness.build_section("placement-sched", table))


if __name__ == "__main__":
    main()
