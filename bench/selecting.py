# SPDX-License-Identifier: Apache-2.0
"""Compares selections with openstack-placement and nova's filters and weighers.

``make bench WHAT=selecting``, or ``python bench/selecting.py --help``. OpenStack's time is the sum
of placement's response to our candidates query, and of nova's handlers for its hosts.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random
from uuid import UUID

import harness
import orjson
import services
from harness import Databases, Finding, Target, Times, WrongResponse
from selections import Flavor, selection_body
from services import Request
from sqlalchemy.engine import URL
from worlds import ALWAYS_UP, FlatWorld

from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.model.request_spec import RequestSpec, parse_request_spec
from placement_sched.scheduler.caches import ProcessCaches
from placement_sched.scheduler.filtering import run_filters
from placement_sched.scheduler.host_manager import build_host_states
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.plugins import get_plugins, read_settings
from placement_sched.scheduler.request import SchedulingRequest
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.scheduler.weights import run_weighers

HANDLERS = Path(__file__).with_name("nova_handlers.py")
SELECT, EXPLAIN = "/scheduler/v1/select_destinations", "/scheduler/v1/explain"
#: The number of hosts that the targets are meant for.
HOSTS = 10_000
HANDLERS_TARGET, END_TO_END_TARGET = Target(4), Target(60)
RATIO_TARGET = Target(1.5, is_maximum=True)
#: The attributes of a host state that nova's host states get, too.
ATTRIBUTES = (
    *("total_usable_ram_mb", "total_usable_disk_gb", "free_ram_mb", "free_disk_mb"),
    *("vcpus_total", "vcpus_used", "num_io_ops", "num_instances", "failed_builds"),
    *("cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio"),
    *("hypervisor_type", "hypervisor_version", "supported_instances", "uuid"),
)


def _read_spec() -> RequestSpec:
    spec = selection_body(Flavor())["request_spec"]
    return parse_request_spec({**spec, "instance_uuids": [str(UUID(int=1))]})


def _find_hosts(settings: Settings) -> tuple[list[HostState], str]:
    """Return the hosts of the candidates search, and its query."""
    database, spec, caches = Database(settings), _read_spec(), ProcessCaches()
    request = SchedulingRequest(spec=spec, settings=settings, plugins=get_plugins(settings))
    scheduler = Scheduler(
        database=database, settings=settings, clock=utcnow, random=Random(1), caches=caches
    )
    with database.read() as connection:
        run = scheduler.evaluate(connection, request)
        searches = run.searches
        hosts = build_host_states(run.view, searches.candidates, spec)
    database.dispose()
    if searches.query is None:
        raise RuntimeError("there was no candidates search")
    return hosts, searches.query.as_querystring()


def _time_our_handlers(hosts: Sequence[HostState], settings: Settings, rounds: int) -> list[float]:
    """Return the CPU milliseconds of our filters and weighers, by rounds."""
    plugins, spec = get_plugins(settings), _read_spec()
    times = []
    for _ in range(rounds):
        start = time.process_time()
        passed = run_filters(plugins.filters, hosts, spec)
        run_weighers(plugins.weighers, passed.hosts, spec)
        times.append((time.process_time() - start) * 1000)
    return times


def _time_nova_handlers(hosts: Sequence[HostState], rounds: int) -> list[float]:
    """Return the CPU milliseconds of nova's filters and weighers, in a process of their own."""
    states = [
        {
            "host": host.host,
            "node": host.nodename,
            "attributes": {name: getattr(host, name) for name in ATTRIBUTES},
        }
        for host in hosts
    ]
    document = {"rounds": rounds, "flavor": asdict(Flavor()), "hosts": states}
    process = subprocess.run(
        [services.PEER_PYTHON, HANDLERS],
        input=orjson.dumps(document),
        capture_output=True,
        check=False,
    )
    if process.returncode:
        raise RuntimeError(f"nova's handlers failed: {process.stderr.decode()[-2000:]}")
    results = json.loads(process.stdout)
    if any(each["passed"] != len(hosts) for each in results):
        number = results[0]["passed"]
        raise WrongResponse(f"nova's filters let {number} of {len(hosts)} hosts pass")
    return [each["ms"] for each in results]


def _measure_requests(url: URL, query: str, rounds: int) -> dict[str, Times]:
    """Send all requests in turns."""
    spec = selection_body(Flavor())
    posts = {
        "select_destinations": (SELECT, {**spec, "claim": False}),
        "10 instances": (SELECT, selection_body(Flavor(), 10, claim=False)),
        "explain": (EXPLAIN, spec),
    }
    with services.both(url, has_peer=True) as (ours, peer):
        requests = {name: (ours, Request("POST", *post)) for name, post in posts.items()}
        requests["placement"] = (peer, Request("GET", f"/allocation_candidates?{query}"))
        calls = {
            name: lambda _number, server=server, request=request: server.address.measure(request)[0]
            for name, (server, request) in requests.items()
        }
        return harness.take_turns(calls, rounds)


def _find(times: dict[str, Times], ours: Sequence[float], novas: Sequence[float]) -> list[Finding]:
    """Return the values that have targets."""
    nova, own = statistics.median(novas), statistics.median(ours)
    plain, placement = times["select_destinations"], times["placement"].median
    note = f"ours {own:.1f} ms, nova {nova:.1f} ms"
    parts = f"{plain.median:.1f} ms; placement {placement:.0f} ms, nova {nova:.0f} ms"
    ratio = (placement + nova) / plain.median
    findings = [
        Finding("filters and weighers, CPU", nova / own, HANDLERS_TARGET, note),
        Finding("select_destinations, end to end", ratio, END_TO_END_TARGET, parts),
    ]
    for name in ("10 instances", "explain"):
        ratio, *_ = harness.compare(plain, times[name])
        note = f"{times[name].median:.1f} ms"
        findings.append(Finding(f"{name}, divided by a selection", ratio, RATIO_TARGET, note))
    return findings


def main() -> int:
    """Compare the services on each database."""
    parser = harness.Options(__doc__)
    parser.add_sized("--hosts", HOSTS, 1_000, "hosts of the cloud")
    parser.add_sized("--rounds", 15, 3, "rounds of each request")
    options = parser.parse()

    def measure(kind: str, databases: Databases) -> None:
        url = databases.find_or_fill(FlatWorld(options.hosts, seen=ALWAYS_UP))
        connection = url.render_as_string(hide_password=False)
        settings = read_settings().with_overrides({"placement_database.connection": connection})
        hosts, query = _find_hosts(settings)
        times = _measure_requests(url, query, options.rounds)
        novas = _time_nova_handlers(hosts, options.rounds)
        ours = _time_our_handlers(hosts, settings, options.rounds)
        findings = _find(times, ours, novas)
        table = harness.build_target_table(findings, kind, applies=options.hosts == HOSTS)
        title = f"{kind}: {options.hosts} hosts, {len(hosts)} candidates"
        print(harness.build_section(title, table), flush=True)

    return harness.run_on_databases(options, measure)


if __name__ == "__main__":
    sys.exit(main())
