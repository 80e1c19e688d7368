# SPDX-License-Identifier: Apache-2.0
"""Time of the failover computation, and of selections with FailoverCapacityFilter.

``python bench/failover.py --help``. The cloud has 10 000 hosts (``worlds.flat``) with 10 recorded
instances of 20 flavors each. Selections, without a claim, alternate between two applications: with
and without the filter.
"""

import argparse
import os
import shlex
import statistics
import sys
import time
from uuid import UUID

import databases
from scheduler_api import build_flavors, measure
from worlds.flat import FlatWorld
from worlds.nodes import ALWAYS_UP

from placement_sched.api.request_context import WSGI
from placement_sched.app import create_app, wrap_for_worker
from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.model.flavor import Flavor
from placement_sched.model.instance import Instance
from placement_sched.operations.failover import store_result
from placement_sched.scheduler.plugins import read_settings
from placement_sched.store.compute import compute_nodes, flavors, instances

#: Number of flavors, and of instances on each host.
FLAVORS, INSTANCES_PER_HOST = 20, 10


def record_instances(database: Database, number: int) -> None:
    """Store the flavors, and record instances of them on each host."""
    sizes = build_flavors(FLAVORS)
    with database.read() as connection:
        names = sorted(host for host, _ in compute_nodes.names_by_uuid(connection).values())
    unset = dict.fromkeys(("task_state", "image", "server_group", "decision_uuid"))
    rows = [
        Instance(
            uuid=str(UUID(int=1 + at * number + index)),
            host=host,
            node=host,
            project_id="p",
            user_id="u",
            display_name=f"vm{at}-{index}",
            vm_state="active",
            flavor=sizes[(at + index) % FLAVORS],
            **unset,  # type: ignore[arg-type]
        )
        for at, host in enumerate(names)
        for index in range(number)
    ]
    for first in range(0, len(rows), 5000):
        part = rows[first : first + 5000]
        database.write(lambda connection, part=part: instances.record(connection, part, utcnow()))
    stored = [Flavor.from_document({**size, "flavorid": size["name"]}) for size in sizes]
    database.write(lambda connection: flavors.add_many(connection, stored, utcnow()))


def make_application(url: str, names: list[str]) -> tuple[WSGI, Settings]:
    """Return an application with these filters enabled after the default filters."""
    settings = read_settings()
    enabled = [*settings.filter_scheduler.enabled_filters, *names]
    overrides = {
        "placement_database.connection": url,
        "api.auth_strategy": "noauth2",
        "filter_scheduler.enabled_filters": enabled,
        "filter_scheduler.failover_capacity_max_age": 100_000,
    }
    return create_app(settings.with_overrides(overrides))


def main() -> int:
    """Compute, select, and print the times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    databases.add_arguments(parser)
    options = parser.parse_args()
    world = FlatWorld(options.hosts, options.seed, ALWAYS_UP)
    with databases.filled_database(options, world) as database_url:
        url = database_url.render_as_string(hide_password=False)
        plain, filtering = (
            make_application(url, []),
            make_application(url, ["FailoverCapacityFilter"]),
        )
        record_instances(plain.services.database, INSTANCES_PER_HOST)
        start = time.perf_counter()
        answer = store_result(plain.services.scheduler)
        seconds = time.perf_counter() - start
        spec = {"flavor": "f1"}
        body = {"request_spec": spec, "claim": False}
        applications = {"without the filter": plain, "with the filter": filtering}
        wrapped = {name: wrap_for_worker(each) for name, each in applications.items()}
        rounds = [
            {name: measure(each, "select_destinations", body)[0] for name, each in wrapped.items()}
            for _ in range(options.rounds + 2)
        ][2:]
        for each in applications.values():
            each.close()
    print(f"`{shlex.join(sys.argv)}`, load average {os.getloadavg()[0]:.1f}\n")
    states = ", ".join(
        f"{answer[state]} {state}" for state in ("covered", "uncovered", "undetermined")
    )
    print(f"failover capacity of {options.hosts} hosts: {seconds:.1f} s, {states}\n")
    for row in answer["remaining"][:5]:
        print(row)
    print("| selection | median ms | least ms |\n| --- | --: | --: |")
    for name in wrapped:
        times = [1000 * measured[name] for measured in rounds]
        print(f"| {name} | {statistics.median(times):.1f} | {min(times):.1f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
