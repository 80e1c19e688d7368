# SPDX-License-Identifier: Apache-2.0
"""Times of scheduler API requests: explain, hosts, capacity and plan.

``python bench/scheduler_api.py --help``. The cloud has 10 000 hosts (``worlds.flat``). Requests go
to the WSGI application in this process, as a worker of the server runs it, JSON included. The first
round loads the provider cache and is not counted.
"""

import argparse
import os
import shlex
import statistics
import sys
import time
from collections.abc import Mapping
from random import Random
from uuid import UUID

import databases
import orjson
from werkzeug.test import create_environ
from worlds.flat import FlatWorld
from worlds.nested import NestedWorld
from worlds.nodes import ALWAYS_UP

from placement_sched.api.request_context import WSGI
from placement_sched.app import create_app, wrap_for_worker
from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.model.flavor import Flavor
from placement_sched.model.instance import Instance
from placement_sched.scheduler.plugins import read_settings
from placement_sched.store.compute import compute_nodes, flavors, instances

#: Flavors of the largest capacity request.
FLAVORS = 25
#: Hosts that the plan drains, and instances on each of them.
DRAINED_HOSTS, INSTANCES_PER_HOST = 10, 20
#: Traits that a flavor prefers.
PREFERRED = "HW_CPU_X86_AVX2,COMPUTE_NODE"


def build_flavors(number: int) -> list[dict[str, object]]:
    """Return flavors of different sizes."""
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


def build_requests(drained: list[str]) -> Mapping[str, tuple[str, dict[str, object] | None]]:
    """Return path and body of each request by its name. GET requests have no body."""
    spec = {"flavor": {"name": "m1", "vcpus": 2, "memory_mb": 4096, "root_gb": 20}}
    many = {"request_spec": {}, "flavors": build_flavors(FLAVORS)}
    preferring = {**spec["flavor"], "extra_specs": {"scheduler:prefer_traits": PREFERRED}}
    return {
        "explain": ("explain", {"request_spec": spec}),
        "selection without a claim": (
            "select_destinations",
            {"request_spec": spec, "claim": False},
        ),
        "selection of 3 requests together": (
            "select_destinations",
            {
                "requests": [
                    {"request_spec": {"flavor": flavor}} for flavor in build_flavors(FLAVORS)[:3]
                ],
                "claim": False,
            },
        ),
        "selection that prefers traits": (
            "select_destinations",
            {"request_spec": {"flavor": preferring}, "claim": False},
        ),
        "all hosts": ("hosts", None),
        "a page of 50 hosts": ("hosts?limit=50", None),
        "one host": ("hosts/cn000007.example.org", None),
        "capacity of a flavor": ("capacity", {"request_spec": spec}),
        "capacity of a flavor per zone": ("capacity", {"request_spec": spec, "per": "zone"}),
        "capacity of a flavor per host": ("capacity", {"request_spec": spec, "per": "host"}),
        f"capacity of {FLAVORS} flavors": ("capacity", many),
        f"capacity of {FLAVORS} flavors per zone": ("capacity", {**many, "per": "zone"}),
        f"plan to drain {DRAINED_HOSTS} hosts": ("plan", {"changes": [{"drain": drained}]}),
    }


def store_flavors(database: Database) -> None:
    """Store the flavors that plugins compare, such as StrandedResourcesWeigher."""
    stored = [
        Flavor.from_document({**flavor, "flavorid": flavor["name"]})
        for flavor in build_flavors(FLAVORS)
    ]
    database.write(lambda connection: flavors.add_many(connection, stored, utcnow()))


def record_instances(database: Database) -> list[str]:
    """Record instances on the hosts to drain, and return the names of these hosts."""
    with database.read() as connection:
        names = sorted(host for host, _ in compute_nodes.names_by_uuid(connection).values())
    drained = names[:DRAINED_HOSTS]
    hosts = [host for host in drained for _ in range(INSTANCES_PER_HOST)]
    unset = dict.fromkeys(("task_state", "image", "server_group", "decision_uuid"))
    rows = [
        Instance(
            uuid=str(UUID(int=number)),
            host=host,
            node=host,
            project_id="p",
            user_id="u",
            display_name=f"vm{number}",
            vm_state="active",
            flavor={"name": "m", "vcpus": 1, "memory_mb": 1024 * (1 + number % 4), "root_gb": 1},
            **unset,  # type: ignore[arg-type]
        )
        for number, host in enumerate(hosts, 1)
    ]
    database.write(lambda connection: instances.record(connection, rows, utcnow()))
    return drained


def measure(application: WSGI, path: str, body: dict[str, object] | None) -> tuple[float, int]:
    """Return the seconds that a request takes, and the bytes of its response."""
    data = None if body is None else orjson.dumps(body)
    environ = create_environ(
        f"/scheduler/v1/{path}",
        method="GET" if data is None else "POST",
        data=data,
        headers={"X-Auth-Token": "admin", "Content-Type": "application/json"},
    )
    statuses: list[str] = []
    start = time.perf_counter()
    content = b"".join(application({**environ}, lambda status, *_: statuses.append(status)))
    seconds = time.perf_counter() - start
    if statuses != ["200 OK"]:
        raise SystemExit(f"{path}: {statuses}: {content.decode()}")
    return seconds, len(content)


def with_filters(settings: Settings, classes: str) -> Settings:
    """Return settings that enable more filters, given by the dotted names of their classes.

    Filters that import nova need ``OS_FILTER_SCHEDULER__NOVA_SHIM=true``.
    """
    if not classes:
        return settings
    names = classes.split(",")
    enabled = settings.filter_scheduler.enabled_filters
    return settings.with_overrides(
        {
            "filter_scheduler.available_filters": [
                "placement_sched.scheduler.filters.all_filters",
                *names,
            ],
            "filter_scheduler.enabled_filters": [
                *enabled,
                *(name.rpartition(".")[2] for name in names),
            ],
        }
    )


def main() -> int:
    """Send the requests in turns, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--world", choices=("flat", "nested"), default="flat")
    parser.add_argument("--only", default="", help="requests with this text in their names")
    parser.add_argument("--flavors", action="store_true", help=f"store {FLAVORS} flavors")
    parser.add_argument("--filters", default="", help="classes of more filters to enable")
    databases.add_arguments(parser)
    options = parser.parse_args()
    kind = FlatWorld if options.world == "flat" else NestedWorld
    with databases.filled_database(options, kind(options.hosts, options.seed, ALWAYS_UP)) as url:
        connection = url.render_as_string(hide_password=False)
        overrides = {"placement_database.connection": connection, "api.auth_strategy": "noauth2"}
        app = create_app(with_filters(read_settings().with_overrides(overrides), options.filters))
        application = wrap_for_worker(app)
        if options.flavors:
            store_flavors(app.services.database)
        requests = build_requests(record_instances(app.services.database))
        chosen = {name: request for name, request in requests.items() if options.only in name}
        rounds = [
            {name: measure(application, *request) for name, request in chosen.items()}
            for _ in range(options.rounds + 1)
        ][1:]
        app.close()
    print(f"`{shlex.join(sys.argv)}`, load average {os.getloadavg()[0]:.1f}\n")
    print("| request | median s | least s | most s | bytes |\n| --- | --: | --: | --: | --: |")
    for name in chosen:
        seconds = [measured[name][0] for measured in rounds]
        median = statistics.median(seconds)
        size = rounds[-1][name][1]
        print(f"| {name} | {median:.3f} | {min(seconds):.3f} | {max(seconds):.3f} | {size} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
