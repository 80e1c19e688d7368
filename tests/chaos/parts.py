# SPDX-License-Identifier: Apache-2.0
"""Parts of ``make test-only WHAT=chaos``, with their order and time limits."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ChaosTestGroup:
    """Tests under a name for the table, and their limit of ``most`` seconds.

    Environment ``variables`` lengthen tests of other folders. The tests of ``tests/chaos`` read
    ``run_length.py`` instead. A part that mostly ``waits`` runs concurrently with another part. A
    part that measures time runs ``alone``, before all others.
    """

    name: str
    most: int
    tests: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    waits: bool = False
    alone: bool = False


#: Seconds after which running parts are stopped and no other part starts. A stopped part may take
#: up to two minutes more to stop its own processes.
MAX_RUN_SECONDS = 18 * 60
CHAOS_PARTS = (
    ChaosTestGroup(
        "16 writers on all allocations and inventories, workers killed",
        240,
        ("tests/chaos/test_killed_workers.py",),
    ),
    ChaosTestGroup(
        "16 writers on every route that writes", 240, ("tests/chaos/test_concurrent_writes.py",)
    ),
    ChaosTestGroup(
        "16 writers, half of them of openstack-placement on the same database",
        480,
        ("tests/coexistence/test_races.py", "tests/coexistence/test_races_on_every_route.py"),
        {"PLACEMENT_SCHED_TEST_RACE_EACH": "8", "PLACEMENT_SCHED_TEST_RACE_ROUNDS": "6"},
    ),
    ChaosTestGroup(
        "claims of whole providers from several processes",
        180,
        ("tests/store/placement/test_allocations_race.py",),
        {"PLACEMENT_SCHED_TEST_RACE_ROUNDS": "20"},
    ),
    ChaosTestGroup(
        "kill -9 of servers and databases", 600, ("tests/chaos/test_kills.py",), waits=True
    ),
    ChaosTestGroup(
        "COMMITs and connections cut, databases read-only", 400, ("tests/chaos/faults",), waits=True
    ),
    ChaosTestGroup(
        "nodes of a Galera cluster killed", 240, ("tests/chaos/test_galera_failures.py",)
    ),
    ChaosTestGroup("disk full", 300, ("tests/chaos/test_full_disks.py",), waits=True),
    ChaosTestGroup(
        "clock jumps",
        300,
        ("tests/chaos/test_clock_jumps.py", "tests/chaos/test_wall_clock_changes.py"),
        waits=True,
    ),
    ChaosTestGroup(
        "more load than can be answered", 180, ("tests/chaos/test_overload.py",), alone=True
    ),
    ChaosTestGroup(
        "slow and silent clients", 180, ("tests/cli/test_serve_slow_clients.py",), waits=True
    ),
    ChaosTestGroup("requests made by a grammar", 540, ("tests/chaos/test_random_requests.py",)),
    ChaosTestGroup(
        "the CPU that the largest requests take",
        240,
        ("tests/chaos/probes/test_costs.py",),
        alone=True,
    ),
    ChaosTestGroup(
        "smuggling, paths, headers, bodies, log lines",
        180,
        (
            "tests/chaos/probes",
            "--ignore=tests/chaos/probes/test_costs.py",
            "tests/api/test_body_reading.py",
            "tests/api/test_routing.py",
            "tests/api/test_middleware.py",
            "tests/api/test_proxy.py",
        ),
    ),
    ChaosTestGroup("every route, every kind of caller", 120, ("tests/chaos/test_callers.py",)),
)
