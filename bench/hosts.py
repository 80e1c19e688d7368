# SPDX-License-Identifier: Apache-2.0
"""Times the list of all hosts, a page of it, and one host whole.

``python bench/hosts.py --help``. A cloud of 10 000 hosts of forty traits and ten consumers, flat
or nested, asked in process as a server asks, encoding included.
"""

import argparse
import os
import shlex
import statistics
import sys
import time
from collections.abc import Callable

import databases
import orjson
from worlds.flat import FlatWorld
from worlds.nested import NestedWorld
from worlds.nodes import ALWAYS_UP

from placement_sched.app import make_services
from placement_sched.operations.prepare import freeze_loaded_objects
from placement_sched.scheduler.caches import ProcessCaches
from placement_sched.scheduler.host_views import HostQuery, list_hosts, show_host
from placement_sched.scheduler.plugins import read_settings
from placement_sched.scheduler.scheduler import Scheduler

#: What is asked, by the name of its line.
QUESTIONS: dict[str, Callable[[Scheduler], object]] = {
    "all hosts": lambda scheduler: list_hosts(scheduler, HostQuery()),
    "a page of 50": lambda scheduler: list_hosts(scheduler, HostQuery(limit=50)),
    "those in one zone": lambda scheduler: list_hosts(scheduler, HostQuery(zone="az1")),
    "one host": lambda scheduler: show_host(scheduler, "cn000007.example.org"),
}


def main() -> int:
    """Ask each question in turn, and print what it takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--world", choices=("flat", "nested"), default="flat")
    databases.add_arguments(parser)
    given = parser.parse_args()
    kind = FlatWorld if given.world == "flat" else NestedWorld
    with databases.filled_database(given, kind(given.hosts, given.seed, ALWAYS_UP)) as url:
        connection = url.render_as_string(hide_password=False)
        settings = read_settings().with_overrides({"placement_database.connection": connection})
        services = make_services(settings, memory=ProcessCaches())
        freeze_loaded_objects()  # as a server does before it answers
        taken: dict[str, list[float]] = {name: [] for name in QUESTIONS}
        size = {}
        for _ in range(given.rounds + 1):
            for name, question in QUESTIONS.items():
                began = time.perf_counter()
                size[name] = len(orjson.dumps(question(services.scheduler)))
                taken[name].append(time.perf_counter() - began)
        services.database.dispose()
    print(f"`{shlex.join(sys.argv)}`, load average {os.getloadavg()[0]:.1f}\n")
    for name, values in taken.items():
        some = values[1:]
        median, least, most = statistics.median(some), min(some), max(some)
        print(f"{name:<20} {median:.3f} s ({least:.3f} to {most:.3f}), {size[name]:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
