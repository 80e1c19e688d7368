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

from tests.chaos.parts import DEADLINE, PARTS, ChaosTestGroup
from tests.chaos.run_length import SCALE, TRIED
from tests.own_servers import run_own_servers

#: Seconds that a stopped part has to stop its own processes.
ENDING = 60


@dataclass(frozen=True)
class Outcome:
    """Result of a part: its problems, the numbers of its attempts and its output."""

    problems: tuple[str, ...]
    tried: tuple[str, ...] = ()
    seconds: float = 0
    printed: str = ""

    @property
    def verdict(self) -> str:
        return f"NO: {'; '.join(self.problems)}" if self.problems else "yes"


def main() -> int:
    """Run the selected parts and print the table. Return 1 if a part failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--only", nargs="+", default=[""], help="words of the parts to be tried")
    words = [word.lower() for word in parser.parse_args().only]
    parts = [part for part in PARTS if any(word in part.name.lower() for word in words)]
    if not parts:
        parser.error("no part has such a name:\n" + "\n".join(part.name for part in PARTS))
    console = Console()
    with run_own_servers():
        outcomes = run_test_groups(parts, console)
    table = Table("Tried", "How much", "Survived", "Seconds", show_lines=True)
    for part in parts:
        outcome = outcomes[part.name]
        table.add_row(
            part.name, "\n".join(outcome.tried), outcome.verdict, f"{outcome.seconds:.0f}"
        )
    console.print(table)
    return int(any(outcome.problems for outcome in outcomes.values()))


def run_test_groups(parts: list[ChaosTestGroup], console: Console) -> dict[str, Outcome]:
    """Run the measuring parts alone, then the other parts in two threads."""
    end = time.monotonic() + DEADLINE
    outcomes: dict[str, Outcome] = {}

    def run_groups_one_after_another(take: Callable[[], ChaosTestGroup]) -> None:
        with suppress(IndexError):  # no part remains
            while part := take():
                console.print(f"begun: {part.name}", markup=False)
                outcomes[part.name] = outcome = run_test_group(
                    part, min(part.most, end - time.monotonic())
                )
                if outcome.problems:
                    console.print(outcome.printed, markup=False)
                console.print(f"{part.name}: {outcome.verdict}", markup=False)

    run_groups_one_after_another(deque(part for part in parts if part.alone).popleft)
    # One thread starts with the busy parts, the other with the waiting parts.
    rest = deque(sorted((part for part in parts if not part.alone), key=lambda part: part.waits))
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run_groups_one_after_another, (rest.pop, rest.popleft)))
    return outcomes


def run_test_group(part: ChaosTestGroup, most: float) -> Outcome:
    """Run the tests of a part in another process for at most ``most`` seconds."""
    if most <= 0:
        return Outcome((f"not run: the {DEADLINE // 60} minutes for all were over",))
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report, printed = Path(folder) / "report.xml", Path(folder) / "printed.txt"
        command = [sys.executable, "-m", "pytest", "-q", "-n0", "--no-header", *part.tests]
        command += [f"--timeout={most:.0f}", f"--junitxml={report}", "-ojunit_family=xunit1"]
        problems = [] if run_command(command, part, most, printed) else [f"stopped: {most:.0f} s"]
        tree = ET.parse(report) if report.exists() else None  # noqa: S314 - written by pytest
        cases = list(tree.iter("testcase")) if tree else []
        problems += [
            f"{case.get('name')}: {child.tag}"
            for case in cases
            for child in case
            if child.tag in {"failure", "error", "skipped"}
        ]
        properties = [item for case in cases for item in case.iter("property")]
        return Outcome(
            problems=tuple(problems if cases else [*problems, "no test ended"]),
            tried=tuple(str(item.get("value")) for item in properties if item.get("name") == TRIED),
            seconds=time.monotonic() - begun,
            printed=printed.read_text(errors="replace"),
        )


def run_command(command: list[str], part: ChaosTestGroup, most: float, printed: Path) -> bool:
    """Run a command with its output in a file, and return whether it ended by itself."""
    environment = {**os.environ, SCALE: "whole", **part.variables}
    # Not to a pipe: it stays open until all started processes end.
    with (
        printed.open("w") as output,
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
                process.wait(timeout=ENDING)
            process.kill()
            return False
        return True


if __name__ == "__main__":
    sys.exit(main())
