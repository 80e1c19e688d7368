"""``make chaos``: everything that goes wrong in a cluster, tried at length, as a table.

The parts are tests, of which the suite runs a short form. Here each tries more, and says how much
it tried; the table has a line for each, and the exit status is 1 where one did not survive.
"""

import argparse
import os
import sys
import time
from dataclasses import dataclass, field

import pytest
from rich.console import Console
from rich.table import Table

from tests.chaos.scale import SCALE, TRIED

#: What is tried, by its name in the table: tests, and the environment that makes them long.
PARTS: dict[str, tuple[list[str], dict[str, str]]] = {
    "16 writers on all write paths, workers killed": (
        ["tests/races/test_killed_workers.py"],
        {"PLACEMENT_SCHED_TEST_RACE_SECONDS": "40"},
    ),
    "beside openstack-placement on the same database": (
        ["tests/races/test_two_servers.py", "tests/coexistence/test_repairing.py"],
        {},
    ),
    "claims of whole providers from several processes": (
        ["tests/store/placement/test_allocations_race.py"],
        {"PLACEMENT_SCHED_TEST_RACE_ROUNDS": "100"},
    ),
    "servers and database processes killed": (["tests/chaos/test_kills.py"], {}),
    "COMMITs and connections cut": (["tests/faults"], {"PLACEMENT_SCHED_TEST_CUT_COMMITS": "300"}),
    "standbys, promoted under load": (["tests/db/test_standby.py"], {}),
    "disk full": (["tests/chaos/test_storage.py"], {}),
    "clock jumps": (["tests/chaos/test_clock.py"], {}),
    "more load than can be answered": (["tests/chaos/test_overload.py"], {}),
    "slow and silent clients": (["tests/cli/test_serve_slow_clients.py"], {}),
    "requests made by a grammar": (["tests/chaos/test_random_requests.py"], {}),
    "smuggling, paths, headers, bodies, log lines": (
        [
            "tests/api/test_body_reading.py",
            "tests/api/test_addresses.py",
            "tests/api/test_access_log.py",
            "tests/api/test_proxy.py",
        ],
        {},
    ),
    "every route, every kind of caller": (["tests/chaos/test_callers.py"], {}),
}


@dataclass
class Survey:
    """What the tests of a part came to: a plugin of pytest."""

    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the outcome of one phase of a test."""
        if report.failed:
            self.failed.append(report.nodeid)
        elif report.skipped:
            self.skipped.append(report.nodeid)
        elif report.when == "call":
            self.passed += 1
            self.tried += [str(value) for name, value in report.user_properties if name == TRIED]

    @property
    def survived(self) -> bool:
        """Return whether something was tried and nothing failed."""
        return bool(self.passed) and not self.failed


def main() -> int:
    """Try the parts that are asked for, print the table, and return 1 where one did not survive."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], help="words of the parts to be tried")
    only = parser.parse_args().only
    os.environ[SCALE] = "whole"
    chosen = {name: part for name, part in PARTS.items() if _is_asked(name, only)}
    table = Table("Tried", "Tests", "How much", "Survived", "Seconds")
    console, survived = Console(), bool(chosen)
    for number, (name, (tests, variables)) in enumerate(chosen.items(), 1):
        console.print(f"[{number}/{len(chosen)}] {name}", markup=False)
        begun, survey = time.monotonic(), Survey()
        os.environ.update(variables)
        # A process of its own for each part would be cleaner, and start for twenty seconds longer.
        pytest.main(["-q", "-n0", "--no-header", "--timeout", "900", *tests], plugins=[survey])
        survived &= survey.survived
        outcome = "yes" if survey.survived else f"NO: {', '.join(survey.failed) or 'nothing ran'}"
        if survey.skipped:
            outcome += f" ({len(survey.skipped)} skipped)"
        seconds = f"{time.monotonic() - begun:.0f}"
        table.add_row(name, str(survey.passed), "; ".join(survey.tried), outcome, seconds)
    console.print(table)
    return 0 if survived else 1


def _is_asked(name: str, only: list[str]) -> bool:
    return not only or any(word.lower() in name.lower() for word in only)


if __name__ == "__main__":
    sys.exit(main())
