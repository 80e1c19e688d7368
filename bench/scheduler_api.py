# SPDX-License-Identifier: Apache-2.0
"""Times of requests of the scheduler API.

``python bench/scheduler_api.py --help``. ``--only failover`` records ten instances on each host,
computes the failover capacity, and compares selections without and with FailoverCapacityFilter.
"""

import sys
import time
from contextlib import ExitStack, closing
from functools import partial
from random import Random
from typing import Any

import harness
import services
from harness import Databases
from selections import Flavor as Sizes
from selections import selection_body
from services import Request, Server
from worlds import ALWAYS_UP, FlatWorld, uuid_of

from placement_sched.app import Services, create_app
from placement_sched.db.transaction import Database
from placement_sched.extensions.what_if.failover.task import store_result
from placement_sched.model.clock import utcnow
from placement_sched.model.flavor import Flavor
from placement_sched.model.instance import Instance
from placement_sched.scheduler.plugins import read_settings
from placement_sched.store.compute import compute_nodes, flavors, instances

#: Flavors of the largest capacity request, and of recorded instances.
FLAVORS, INSTANCE_FLAVORS = 25, 20
#: Hosts that the plan drains, and instances on each of them.
DRAINED_HOSTS, DRAINED_INSTANCES = 10, 20
INSTANCES_PER_HOST = 10
PREFERRED_TRAITS = "HW_CPU_X86_AVX2,COMPUTE_NODE"
FAILOVER = "failover"


def _build_flavors(number: int) -> list[dict[str, Any]]:
    random = Random(1)
    return [
        {
            "name": f"f{index}",
            "vcpus": random.choice([1, 2, 4, 8, 16]),
            "memory_mb": 1024 * random.choice([1, 2, 4, 8, 16, 32]),
            "root_gb": random.choice([10, 20, 40]),
        }
        for index in range(number)
    ]


def _build_requests(drained: list[str]) -> dict[str, tuple[str, Any]]:
    """Return path and body of each request. GET requests have no body."""
    spec, preferring = selection_body(Sizes()), selection_body(Sizes())
    traits = {"scheduler:prefer_traits": PREFERRED_TRAITS}
    preferring["request_spec"]["flavor"]["extra_specs"] = traits
    many = {"request_spec": {}, "flavors": _build_flavors(FLAVORS)}
    three = [{"request_spec": {"flavor": each}} for each in _build_flavors(3)]
    selection, capacity = "select_destinations", "capacity"
    return {
        "explain": ("explain", spec),
        "selection without a claim": (selection, {**spec, "claim": False}),
        "selection of 3 requests together": (selection, {"requests": three, "claim": False}),
        "selection that prefers traits": (selection, {**preferring, "claim": False}),
        "all hosts": ("hosts", None),
        "a page of 50 hosts": ("hosts?limit=50", None),
        "one host": ("hosts/cn000007.example.org", None),
        "capacity of a flavor": (capacity, spec),
        "capacity of a flavor per zone": (capacity, {**spec, "per": "zone"}),
        "capacity of a flavor per host": (capacity, {**spec, "per": "host"}),
        f"capacity of {FLAVORS} flavors": (capacity, many),
        f"capacity of {FLAVORS} flavors per zone": (capacity, {**many, "per": "zone"}),
        f"plan to drain {DRAINED_HOSTS} hosts": ("plan", {"changes": [{"drain": drained}]}),
    }


def _record_instances(database: Database, hosts: int | None, number: int) -> list[str]:
    """Record instances on the first hosts, and return these hosts."""
    sizes = _build_flavors(INSTANCE_FLAVORS)
    with database.read() as connection:
        names = sorted(host for host, _ in compute_nodes.map_names_by_uuid(connection).values())[
            :hosts
        ]
    unset = dict.fromkeys(("task_state", "image", "server_group", "decision_uuid"))
    rows = [
        Instance(
            uuid=uuid_of(f"instance {host}", index),
            host=host,
            node=host,
            project_id="p",
            user_id="u",
            display_name=f"vm{index}",
            vm_state="active",
            flavor=sizes[(place + index) % INSTANCE_FLAVORS],
            **unset,
        )
        for place, host in enumerate(names)
        for index in range(number)
    ]
    for first in range(0, len(rows), 5000):
        part = rows[first : first + 5000]
        database.write(lambda connection, part=part: instances.record(connection, part, utcnow()))
    return names


def _compute_failover(own: Services) -> str:
    """Store flavors and instances, and return time and counts of the failover capacity."""
    sizes = _build_flavors(INSTANCE_FLAVORS)
    stored = [Flavor.from_document({**size, "flavorid": size["name"]}) for size in sizes]
    own.database.write(lambda connection: flavors.add_many(connection, stored, utcnow()))
    _record_instances(own.database, None, INSTANCES_PER_HOST)
    start = time.perf_counter()
    result = store_result(own.scheduler)
    seconds = time.perf_counter() - start
    counts = ", ".join(f"{result[state]} {state}" for state in ("covered", "uncovered"))
    return f"failover capacity: {seconds:.1f} s, {counts}, {result['undetermined']} undetermined"


def _send(server: Server, path: str, body: Any, _number: int) -> float:
    request = Request("GET" if body is None else "POST", f"/scheduler/v1/{path}", body)
    return server.address.measure(request)[0]


def main() -> int:
    """Send the requests in turns, and print a table."""
    parser = harness.Options(__doc__, has_peer=False)
    parser.add_sized("--hosts", 10_000, 500, "hosts of the cloud")
    parser.add_sized("--rounds", 7, 3, "rounds of each request")
    parser.add_argument("--only", default="", help=f"requests with this text, or {FAILOVER}")
    options = parser.parse()

    def measure(kind: str, databases: Databases) -> None:
        url = databases.find_or_fill(FlatWorld(options.hosts, seen=ALWAYS_UP))
        enabled = [*read_settings().filter_scheduler.enabled_filters, "FailoverCapacityFilter"]
        filters = {"OS_FILTER_SCHEDULER__ENABLED_FILTERS": ",".join(enabled)}
        connection = url.render_as_string(hide_password=False)
        overrides = {"placement_database.connection": connection}
        with (
            ExitStack() as stack,
            closing(create_app(read_settings().with_overrides(overrides))) as application,
        ):
            own, note = application.services, ""
            if options.only == FAILOVER:
                note = _compute_failover(own)
                body = {"request_spec": {"flavor": "f1"}, "claim": False}
                calls = {
                    f"selection {name} the filter": partial(
                        *(_send, stack.enter_context(services.ours(url, **variables))),
                        *("select_destinations", body),
                    )
                    for name, variables in (("without", {}), ("with", filters))
                }
            else:
                drained = _record_instances(own.database, DRAINED_HOSTS, DRAINED_INSTANCES)
                server = stack.enter_context(services.ours(url))
                calls = {
                    name: partial(_send, server, *request)
                    for name, request in _build_requests(drained).items()
                    if options.only in name
                }
            times = harness.take_turns(calls, options.rounds)
        rows = [(name, each.median, each.best, max(each.ms)) for name, each in times.items()]
        table = harness.build_table(("request", "median ms", "least ms", "most ms"), rows)
        print(harness.build_section(f"{kind}: {options.hosts} hosts", note, table), flush=True)

    return harness.run_on_databases(options, measure)


if __name__ == "__main__":
    sys.exit(main())
