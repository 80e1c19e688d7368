# SPDX-License-Identifier: Apache-2.0
"""Chaos tests at full length, with a table of results (``make test-only WHAT=chaos``).

pytest runs the same tests in a short form. Here each part makes more attempts and reports their
number. A part has failed if a test failed or was skipped, if it exceeded its time, or if it could
not start within the 20 minutes of the whole run. The exit status is 1 if a part failed.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from rich.console import Console
from rich.table import Table

from tests.chaos.parts import CHAOS_PARTS, MAX_RUN_SECONDS, ChaosTestGroup
from tests.chaos.run_length import RUN_LENGTH_VARIABLE, TRIED_KEY
from tests.own_servers import run_database_servers

#: Seconds that a stopped part has to stop its own processes.
MAX_SECONDS_TO_STOP_PROCESSES = 60


@dataclass(frozen=True)
class ChaosGroupResult:
    """Result of a part: its problems, the numbers of its attempts and its output."""

    problems: tuple[str, ...]
    attempts: tuple[str, ...] = ()
    seconds: float = 0
    output: str = ""

    @property
    def verdict(self) -> str:
        return f"NO: {'; '.join(self.problems)}" if self.problems else "yes"


def main() -> int:
    """Run the selected parts and print the table. Return 1 if a part failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--only", nargs="+", default=[""], help="words of the parts to be tried")
    words = [word.lower() for word in parser.parse_args().only]
    parts = [part for part in CHAOS_PARTS if any(word in part.name.lower() for word in words)]
    if not parts:
        parser.error("no part has such a name:\n" + "\n".join(part.name for part in CHAOS_PARTS))
    console = Console()
    with run_database_servers():
        results = run_test_groups(parts, console)
    table = Table("Tried", "How much", "Survived", "Seconds", show_lines=True)
    for part in parts:
        result = results[part.name]
        table.add_row(
            part.name, "\n".join(result.attempts), result.verdict, f"{result.seconds:.0f}"
        )
    console.print(table)
    return int(any(result.problems for result in results.values()))


def run_test_groups(parts: list[ChaosTestGroup], console: Console) -> dict[str, ChaosGroupResult]:
    """Run the measuring parts alone, then the other parts in two threads."""
    end = time.monotonic() + MAX_RUN_SECONDS
    results: dict[str, ChaosGroupResult] = {}

    def run_groups_in_turn(pop_next_group: Callable[[], ChaosTestGroup]) -> None:
        with suppress(IndexError):  # no part remains
            while part := pop_next_group():
                console.print(f"begun: {part.name}", markup=False)
                results[part.name] = result = run_test_group(
                    part, min(part.most, end - time.monotonic())
                )
                if result.problems:
                    console.print(result.output, markup=False)
                console.print(f"{part.name}: {result.verdict}", markup=False)

    run_groups_in_turn(deque(part for part in parts if part.alone).popleft)
    # One thread starts with the busy parts, the other with the waiting parts.
    rest = deque(sorted((part for part in parts if not part.alone), key=lambda part: part.waits))
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run_groups_in_turn, (rest.pop, rest.popleft)))
    return results


def run_test_group(part: ChaosTestGroup, most: float) -> ChaosGroupResult:
    """Run the tests of a part in another process for at most ``most`` seconds."""
    if most <= 0:
        return ChaosGroupResult(
            (f"not run: the {MAX_RUN_SECONDS // 60} minutes for all were over",)
        )
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report, output_path = Path(folder) / "report.xml", Path(folder) / "output.txt"
        command = [sys.executable, "-m", "pytest", "-q", "-n0", "--no-header", *part.tests]
        command += [f"--timeout={most:.0f}", f"--junitxml={report}", "-ojunit_family=xunit1"]
        problems = (
            [] if run_command(command, part, most, output_path) else [f"stopped: {most:.0f} s"]
        )
        tree = ET.parse(report) if report.exists() else None  # noqa: S314 - written by pytest
        cases = list(tree.iter("testcase")) if tree else []
        problems += [
            f"{case.get('name')}: {child.tag}"
            for case in cases
            for child in case
            if child.tag in {"failure", "error", "skipped"}
        ]
        properties = [item for case in cases for item in case.iter("property")]
        return ChaosGroupResult(
            problems=tuple(problems if cases else [*problems, "no test ended"]),
            attempts=tuple(
                str(item.get("value")) for item in properties if item.get("name") == TRIED_KEY
            ),
            seconds=time.monotonic() - begun,
            output=output_path.read_text(errors="replace"),
        )


def run_command(command: list[str], part: ChaosTestGroup, most: float, output_path: Path) -> bool:
    """Run a command with its output in a file, and return whether it ended by itself."""
    environment = {**os.environ, RUN_LENGTH_VARIABLE: "whole", **part.variables}
    # Not to a pipe: it stays open until all started processes end.
    with (
        output_path.open("w") as output,
        subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        ) as process,
    ):
        try:
            process.wait(timeout=most)
        except subprocess.TimeoutExpired:
            # As with Ctrl-C, so that the tests stop their own processes.
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=MAX_SECONDS_TO_STOP_PROCESSES)
            process.kill()
            return False
        return True


if __name__ == "__main__":
    sys.exit(main())
