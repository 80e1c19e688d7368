# SPDX-License-Identifier: Apache-2.0
"""Times the count of what fits: of one flavor, and of thirty in one question.

``python bench/capacity.py --help``. A cloud of 10 000 hosts (``worlds.flat``), asked through the
WSGI application as a server's worker serves it, JSON included, with providers kept in memory, which
the first question fills.
"""

import argparse
import os
import shlex
import statistics
import sys
import time
from random import Random

import databases
import orjson
from werkzeug.test import create_environ
from worlds.flat import FlatWorld
from worlds.nodes import ALWAYS_UP

from placement_sched.api.request_context import WSGI
from placement_sched.app import create_app, wrap_for_worker
from placement_sched.scheduler.plugins import read_settings

CAPACITY = "/scheduler/v1/capacity"
#: How many flavors one question asks about.
FLAVORS = 25


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


def questions() -> dict[str, dict[str, object]]:
    """Return what is asked, by the name of its line."""
    plain = {"flavor": {"name": "m1", "vcpus": 2, "memory_mb": 4096, "root_gb": 20}}
    some = {"request_spec": {}, "flavors": flavors(FLAVORS)}
    return {
        "one flavor": {"request_spec": plain},
        "one flavor, per zone": {"request_spec": plain, "per": "zone"},
        "one flavor, per host": {"request_spec": plain, "per": "host"},
        f"{FLAVORS} flavors": some,
        f"{FLAVORS} flavors, per zone": {**some, "per": "zone"},
    }


def asked(application: WSGI, body: bytes) -> float:
    """Return how many seconds the application takes to answer a question."""
    headers = {"X-Auth-Token": "admin", "Content-Type": "application/json"}
    environ = {**create_environ(CAPACITY, method="POST", data=body, headers=headers)}
    statuses: list[str] = []

    def start(status: str, _headers: object, *_rest: object) -> None:
        statuses.append(status)

    began = time.perf_counter()
    answer = b"".join(application(environ, start))
    taken = time.perf_counter() - began
    if statuses != ["200 OK"]:
        raise SystemExit(f"{statuses}: {answer.decode()}")
    return taken


def main() -> int:
    """Ask each question in turn, and print what it takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seed", type=int, default=1)
    databases.add_arguments(parser)
    given = parser.parse_args()
    bodies = {name: orjson.dumps(question) for name, question in questions().items()}
    with databases.filled_database(given, FlatWorld(given.hosts, given.seed, ALWAYS_UP)) as url:
        connection = url.render_as_string(hide_password=False)
        overrides = {"placement_database.connection": connection, "api.auth_strategy": "noauth2"}
        made = create_app(read_settings().with_overrides(overrides))
        application = wrap_for_worker(made)
        taken: dict[str, list[float]] = {name: [] for name in bodies}
        for _ in range(given.rounds + 1):
            for name, body in bodies.items():
                taken[name].append(asked(application, body))
        made.close()
    print(f"`{shlex.join(sys.argv)}`, load average {os.getloadavg()[0]:.1f}\n")
    print(f"| {'asked':<22} | median s | least s | most s |")
    print("| --- | --: | --: | --: |")
    for name, (_, *rest) in taken.items():
        median = statistics.median(rest)
        print(f"| {name:<22} | {median:8.3f} | {min(rest):7.3f} | {max(rest):6.3f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
