"""Times the count of what fits: of one flavor, and of thirty in one question.

``python bench/capacity.py --help``. A cloud of 10 000 hosts (``worlds.flat``), asked in process as
a server asks, with providers kept in memory, which the first question fills.
"""

import argparse
import os
import shlex
import statistics
import sys
import time
from collections.abc import Sequence
from random import Random

import databases
from worlds.flat import FlatWorld
from worlds.nodes import ALWAYS_UP

from placement_sched.app import make_services
from placement_sched.scheduler.capacity.asking import CapacityQuestion, capacity
from placement_sched.scheduler.capacity.report import Per
from placement_sched.scheduler.loading import read_settings

#: How many flavors one question asks about.
FLAVORS = 30


def flavors(number: int) -> list[dict[str, object]]:
    """Return so many flavors of different sizes."""
    random = Random(1)
    return [
        {
            "name": f"f{one}",
            "vcpus": random.choice([1, 2, 4, 8, 16]),
            "memory_mb": 1024 * random.choice([1, 2, 4, 8, 16, 32]),
            "root_gb": random.choice([10, 20, 40]),
        }
        for one in range(number)
    ]


def questions() -> dict[str, CapacityQuestion]:
    """Return what is asked, by the name of its line."""
    some = flavors(FLAVORS)
    plain = {"flavor": {"name": "m1", "vcpus": 2, "memory_mb": 4096, "root_gb": 20}}
    return {
        "one flavor": CapacityQuestion(document=plain),
        "one flavor per zone": CapacityQuestion(document=plain, per=Per.ZONE),
        f"{FLAVORS} flavors": CapacityQuestion(document={}, flavors=some),
    }


def timed(values: Sequence[float]) -> str:
    """Return the median and the ends, in seconds."""
    return f"{statistics.median(values):.3f} s ({min(values):.3f} to {max(values):.3f})"


def main() -> int:
    """Ask each question in turn, and print what it takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    databases.add_arguments(parser)
    given = parser.parse_args()
    with databases.filled_database(given, FlatWorld(given.hosts, given.seed, ALWAYS_UP)) as url:
        connection = url.render_as_string(hide_password=False)
        settings = read_settings().overridden({"placement_database.connection": connection})
        services = make_services(settings)
        taken: dict[str, list[float]] = {name: [] for name in questions()}
        for _ in range(given.rounds + 1):
            for name, question in questions().items():
                began = time.perf_counter()
                capacity(services.scheduler, question)
                taken[name].append(time.perf_counter() - began)
        services.database.dispose()
    print(f"`{shlex.join(sys.argv)}`, load average {os.getloadavg()[0]:.1f}\n")
    for name, values in taken.items():
        print(f"{name:<24} {timed(values[1:])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
