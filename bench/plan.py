# SPDX-License-Identifier: Apache-2.0
"""Times a plan: to drain ten hosts that have twenty instances each.

``python bench/plan.py --help``. A cloud of 10 000 hosts (``worlds.flat``), asked in process as a
server asks.
"""

import argparse
import os
import shlex
import statistics
import sys
import time
from uuid import UUID

import databases
from worlds.flat import FlatWorld
from worlds.nodes import ALWAYS_UP

from placement_sched.app import make_services
from placement_sched.model.clock import utcnow
from placement_sched.model.instance import Instance
from placement_sched.scheduler.drain_plan import plan_drain
from placement_sched.scheduler.plugins import read_settings
from placement_sched.scheduler.simulation import changes_from
from placement_sched.store.compute import compute_nodes, instances

#: So many hosts are drained, with so many instances each, of so many flavors.
DRAINED, EACH, FLAVORS = 10, 20, 4


def recorded(hosts: list[str]) -> list[Instance]:
    """Return the instances of these hosts, of flavors of different sizes."""
    nothing = dict.fromkeys(("task_state", "image", "server_group", "decision_uuid"))
    return [
        Instance(
            uuid=str(UUID(int=at + 1)),
            host=host,
            node=host,
            project_id="p",
            user_id="u",
            display_name=f"vm{at}",
            vm_state="active",
            flavor={
                "name": f"m{at % FLAVORS}",
                "vcpus": 1,
                "memory_mb": 1024 * (1 + at % FLAVORS),
                "root_gb": 1,
            },
            **nothing,  # type: ignore[arg-type]
        )
        for at, host in enumerate(one for one in hosts for _ in range(EACH))
    ]


def main() -> int:
    """Plan several times, and print what it takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    databases.add_arguments(parser)
    given = parser.parse_args()
    with databases.filled_database(given, FlatWorld(given.hosts, given.seed, ALWAYS_UP)) as url:
        connection = url.render_as_string(hide_password=False)
        settings = read_settings().with_overrides({"placement_database.connection": connection})
        services = make_services(settings)
        with services.database.read() as reading:
            hosts = sorted(host for host, _ in compute_nodes.names_by_uuid(reading).values())[
                :DRAINED
            ]
        services.database.write(lambda one: instances.record(one, recorded(hosts), utcnow()))
        taken = []
        for _ in range(given.rounds + 1):
            began = time.perf_counter()
            plan = plan_drain(services.scheduler, changes_from([{"drain": hosts}]), [])
            taken.append(time.perf_counter() - began)
        services.database.dispose()
    print(f"`{shlex.join(sys.argv)}`, load average {os.getloadavg()[0]:.1f}\n")
    median, least, most = statistics.median(taken[1:]), min(taken[1:]), max(taken[1:])
    moves, stuck = len(plan.moved.moves), len(plan.moved.stuck)
    print(f"{moves} moves, {stuck} stuck: {median:.2f} s ({least:.2f} to {most:.2f})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
