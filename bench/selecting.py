# SPDX-License-Identifier: Apache-2.0
"""Races the choice of a host against openstack-placement and nova's filters and weighers.

``make bench WHAT=selecting``, or ``python bench/selecting.py --help``. OpenStack's way is the sum
of two: placement's answer to the very candidates query that our request asks, and nova's handlers
on the hosts of that answer. Both servers stand on one database.
"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import both_servers
import orjson
import tables
from both_servers import Address, Request
from databases import filled_database
from targets import END_TO_END, EXPLAIN_BY_PLAIN, TEN_BY_ONE, Finding, Target
from worlds.flat import FlatWorld
from worlds.nodes import ALWAYS_UP

from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.model.request_spec import request_spec_from
from placement_sched.scheduler.caches import ProcessCaches
from placement_sched.scheduler.filtering import run_filters
from placement_sched.scheduler.host_manager import CloudView, host_states
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.plugins import plugins_for, read_settings
from placement_sched.scheduler.request import SchedulingRequest
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.scheduler.weighing import run_weighers

NOVA = Path(__file__).parent.parent / ".venv-peer/bin/python"
HANDLERS = Path(__file__).with_name("nova_handlers.py")
FLAVOR_FIELDS = {"vcpus": 2, "memory_mb": 4096, "root_gb": 20}
#: The cloud that the targets mean.
HOSTS = 10_000
SPEC: Mapping[str, Any] = {
    "flavor": {"name": "m1", **FLAVOR_FIELDS},
    "image": {"properties": {"hw_architecture": "x86_64"}},
    "project_id": "p",
}
#: The attributes of a host state that nova's is given as well.
_SAME = (
    *("total_usable_ram_mb", "total_usable_disk_gb", "free_ram_mb", "free_disk_mb"),
    *("vcpus_total", "vcpus_used", "num_io_ops", "num_instances", "failed_builds"),
    *("cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio"),
    *("hypervisor_type", "hypervisor_version", "supported_instances", "uuid"),
)

HANDLERS_RATIO = Target(4, 10)
ONE_HOST_MS = Target(50, 50, " ms", at_most=True)


class Handlers(NamedTuple):
    """CPU milliseconds that filtering and weighing the same hosts took, by rounds."""

    filter_ms: list[float]
    weigh_ms: list[float]

    @property
    def both_ms(self) -> float:
        """Return the median of the two together."""
        return statistics.median(map(sum, zip(self.filter_ms, self.weigh_ms, strict=True)))

    def shown(self) -> str:
        """Return both medians as the table shows them."""
        return f"{statistics.median(self.filter_ms):.1f} + {statistics.median(self.weigh_ms):.1f}"


class Times(NamedTuple):
    """Milliseconds that each way of answering took, by rounds in which all were asked in turns."""

    plain: list[float]
    ten: list[float]
    explained: list[float]
    one_host: list[float]
    rejected: list[float]
    none_found: list[float]
    placement: list[float]


def body(instances: int = 1, *, explain: bool = False) -> dict[str, Any]:
    """Return what is asked of us: hosts for new instances, without a claim."""
    spec = {**SPEC, "num_instances": instances}
    return {"request_spec": spec} if explain else {"request_spec": spec, "claim": False}


def of_one_host(hosts: int) -> dict[str, Any]:
    """Return what is asked of us about a single host: the last one, which the limit cuts."""
    return {**body(explain=True), "hosts": [f"cn{hosts - 1:06}.example.org"]}


def of_none(hosts: int) -> dict[str, Any]:
    """Return the same for a request that finds no host."""
    flavor = {"name": "m1", **FLAVOR_FIELDS, "memory_mb": 2**24}
    return {**of_one_host(hosts), "request_spec": {**SPEC, "num_instances": 1, "flavor": flavor}}


def of_rejected(ours: Address, hosts: int) -> dict[str, Any]:
    """Return the same of a host on which the search finds nothing, where others are found.

    Raises :class:`both_servers.WrongAnswer` where there is none such.
    """
    reply = ours.ask(Request("POST", "/scheduler/v1/explain", body(explain=True)))
    steps = orjson.loads(reply.body)["funnel"]["allocation_candidates"]["steps"]
    rejected = [one["host"] for step in steps for one in step["rejected"]]
    if not rejected:
        raise both_servers.WrongAnswer("the search found candidates on every host")
    return {**of_one_host(hosts), "hosts": rejected[:1]}


def found_hosts(database: Database, settings: Settings) -> tuple[list[HostState], str]:
    """Return the hosts that the candidates search finds for our request, and its query."""
    spec, memory = request_spec_from(SPEC), ProcessCaches()
    request = SchedulingRequest(spec=spec, settings=settings, plugins=plugins_for(settings))
    scheduler = Scheduler(
        database=database, settings=settings, clock=utcnow, random=Random(1), memory=memory
    )
    with scheduler.evaluate(request) as (connection, run):
        searches = run.searches
        hosts = host_states(CloudView(connection, memory), searches.candidates, spec)
    if searches.query is None:
        raise RuntimeError("nothing was asked of the candidates search")
    return hosts, searches.query.querystring()


def our_handlers(hosts: Sequence[HostState], settings: Settings, rounds: int) -> Handlers:
    """Return what our runners take to filter and weigh the hosts, with the default plugins."""
    plugins, spec = plugins_for(settings), request_spec_from(SPEC)
    filtering, weighing = [], []
    for _ in range(rounds):
        began = time.process_time()
        passed = run_filters(plugins.filters, hosts, spec)
        between = time.process_time()
        run_weighers(plugins.weighers, passed.hosts, spec)
        filtering.append((between - began) * 1000)
        weighing.append((time.process_time() - between) * 1000)
    return Handlers(filtering, weighing)


def nova_handlers(hosts: Sequence[HostState], rounds: int) -> Handlers:
    """Return what nova's handlers take for the same, in a process of their own."""
    asked = {
        "rounds": rounds,
        "flavor": FLAVOR_FIELDS,
        "hosts": [
            {
                "host": host.host,
                "node": host.nodename,
                "attributes": {name: getattr(host, name) for name in _SAME},
            }
            for host in hosts
        ],
    }
    done = subprocess.run(
        [NOVA, HANDLERS], input=orjson.dumps(asked), capture_output=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"nova's handlers failed: {done.stderr.decode()[-2000:]}")
    shown = json.loads(done.stdout)
    if any(one["passed"] != len(hosts) for one in shown):
        raise both_servers.WrongAnswer(
            f"nova's filters let {shown[0]['passed']} of {len(hosts)} pass"
        )
    return Handlers([one["filter_ms"] for one in shown], [one["weigh_ms"] for one in shown])


def timed(address: Address, request: Request) -> float:
    """Return the milliseconds that a request takes; raise :class:`both_servers.WrongAnswer`."""
    message = address.message(request)
    began = time.perf_counter()
    reply = address.answer(message)
    took = (time.perf_counter() - began) * 1000
    if reply.status != 200:
        raise both_servers.WrongAnswer(f"{request.path}: {reply.status} {reply.body[:500]!r}")
    return took


def race(ours: Address, peer: Address, query: str, given: argparse.Namespace) -> Times:
    """Ask all in turns; the first round, in which caches are filled, does not count."""
    select, explain = "/scheduler/v1/select_destinations", "/scheduler/v1/explain"
    asked = [
        (ours, Request("POST", select, body())),
        (ours, Request("POST", select, body(10))),
        (ours, Request("POST", explain, body(explain=True))),
        (ours, Request("POST", explain, of_one_host(given.hosts))),
        (ours, Request("POST", explain, of_rejected(ours, given.hosts))),
        (ours, Request("POST", explain, of_none(given.hosts))),
        (peer, Request("GET", f"/allocation_candidates?{query}")),
    ]
    shown = [[timed(*one) for one in asked] for _ in range(given.rounds + 1)]
    return Times(*map(list, zip(*shown[1:], strict=True)))


def findings(ours: Handlers, novas: Handlers, times: Times, hosts: int) -> Iterator[Finding]:
    """Yield what was promised beside what was measured."""
    yield Finding(
        f"filters and weighers, {hosts} hosts, CPU",
        novas.both_ms / ours.both_ms,
        HANDLERS_RATIO,
        f"ours {ours.shown()} ms, nova {novas.shown()} ms",
    )
    plain = statistics.median(times.plain)
    placement = statistics.median(times.placement)
    yield Finding(
        "select_destinations, end to end",
        (placement + novas.both_ms) / plain,
        END_TO_END,
        f"{plain:.1f} ms by {placement:.0f} ms of placement and {novas.both_ms:.0f} of nova",
    )
    for name, some, target in (
        ("10 instances by 1", times.ten, TEN_BY_ONE),
        ("explain by plain", times.explained, EXPLAIN_BY_PLAIN),
    ):
        ratio = statistics.median(one / by for one, by in zip(some, times.plain, strict=True))
        yield Finding(name, ratio, target, f"{statistics.median(some):.1f} ms")
    for name, some in (
        ("one host explained", times.one_host),
        ("one host explained, rejected", times.rejected),
        ("one host explained, no valid host", times.none_found),
    ):
        yield Finding(name, statistics.median(some), ONE_HOST_MS, "")


def arguments() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=HOSTS)
    parser.add_argument("--rounds", type=int, default=15, help="of each request")
    parser.add_argument("--quick", action="store_true", help="1000 hosts, 3 rounds")
    both_servers.add_arguments(parser)
    given = parser.parse_args()
    if given.quick:
        given.hosts, given.rounds = 1_000, 3
    return given


def main() -> int:
    """Run the race; return 1 where an answer was wrong."""
    given = arguments()
    both_servers.require(NOVA, "make peer installs nova and openstack-placement")
    venv = both_servers.peer_venv(given.peer_venv)
    world = FlatWorld(given.hosts, given.seed, ALWAYS_UP)
    with filled_database(given, world) as url:
        settings = read_settings().with_overrides(
            {"placement_database.connection": url.render_as_string(hide_password=False)}
        )
        database = Database(settings)
        hosts, query = found_hosts(database, settings)
        database.dispose()
        try:
            with both_servers.ours(url) as ours, both_servers.peer(url, venv) as peer:
                times = race(ours.address._replace(prefix=""), peer.address, query, given)
            novas = nova_handlers(hosts, given.rounds)
        except both_servers.WrongAnswer as difference:
            print(f"WRONG ANSWER: {difference}")
            return 1
        shown = findings(our_handlers(hosts, settings, given.rounds), novas, times, len(hosts))
        meant = given.hosts == HOSTS
        print(f"`{shlex.join(sys.argv)}`, load average {os.getloadavg()[0]:.1f}\n")
        print("\n".join(tables.targets(replace(one, applies=meant) for one in shown)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
