# SPDX-License-Identifier: Apache-2.0
"""Chaos tests at full length, with a table of results (``make test-only WHAT=chaos``).

pytest runs the same tests in a short form. Here each part makes more attempts and reports their
number. The table has a row for each part, and the exit status is 1 if a part failed. A part that
exceeds its time is stopped and has failed. A part that cannot start in time has failed, too. The
whole run takes at most 20 minutes. The output of a failed part is printed.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from rich.console import Console
from rich.table import Table

from tests.chaos.parts import DEADLINE, PARTS, Part
from tests.chaos.scale import SCALE, TRIED

#: Seconds that a stopped part has to stop its own processes.
ENDING = 60


@dataclass(frozen=True)
class Outcome:
    """Result of the tests of a part, with the numbers of their attempts in ``tried``."""

    passed: int
    failed: tuple[str, ...]
    skipped: int
    tried: tuple[str, ...]
    seconds: float
    printed: str = ""

    @property
    def has_survived(self) -> bool:
        """Return whether a test passed, and none failed or was skipped."""
        return bool(self.passed) and not self.failed and not self.skipped

    @property
    def verdict(self) -> str:
        if self.has_survived:
            return "yes"
        left_out = [f"{self.skipped} skipped: a program is not installed"] if self.skipped else []
        return f"NO: {'; '.join([*self.failed, *left_out]) or 'nothing was tried'}"


NOT_RUN = Outcome(
    passed=0,
    failed=(f"not run: the {DEADLINE // 60} minutes for all were over",),
    skipped=0,
    tried=(),
    seconds=0,
)


def main() -> int:
    """Run the selected parts and print the table. Return 1 if a part failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], help="words of the parts to be tried")
    only = parser.parse_args().only
    chosen = [part for part in PARTS if _is_chosen(part, only)]
    if unknown := [word for word in only if not any(_is_chosen(part, [word]) for part in PARTS)]:
        names = "\n".join(part.name for part in PARTS)
        parser.error(f"no part has the word {', '.join(unknown)} in its name:\n{names}")
    console = Console()
    trial = _ChaosRun(chosen, console)
    outcomes = trial.run()
    table = Table("Tried", "How much", "Survived", "Seconds", show_lines=True)
    for part, outcome in zip(chosen, outcomes, strict=True):
        much = "\n".join(outcome.tried) or f"{outcome.passed} tests"
        table.add_row(part.name, much, outcome.verdict, f"{outcome.seconds:.0f}")
    console.print(table)
    survived = sum(outcome.has_survived for outcome in outcomes)
    console.print(f"{survived} of {len(chosen)} survived, in {trial.seconds / 60:.1f} minutes")
    return 0 if chosen and survived == len(chosen) else 1


class _ChaosRun:
    """Runs the measuring parts alone, then the other parts in two threads."""

    def __init__(self, parts: Sequence[Part], console: Console) -> None:
        self._parts, self._console = parts, console
        self._begun = time.monotonic()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._is_stopped = False

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begun

    def run(self) -> list[Outcome]:
        """Return the outcome of each part. Ctrl-C stops the run."""
        alone = deque(part for part in self._parts if part.alone)
        together = [part for part in self._parts if not part.alone]
        busy = [part for part in together if not part.waits]
        # One thread starts with the busy parts, the other with the waiting parts.
        rest = deque([*busy, *reversed([part for part in together if part.waits])])
        outcomes: dict[str, Outcome] = {}
        with ThreadPoolExecutor(2) as pool:
            try:
                outcomes |= pool.submit(self._run_in_turn, alone.popleft).result()
                lanes = [pool.submit(self._run_in_turn, take) for take in (rest.pop, rest.popleft)]
                for running in lanes:
                    outcomes |= running.result()
            except KeyboardInterrupt:
                self._is_stopped = True
                for process in list(self._running):
                    process.send_signal(signal.SIGINT)
                raise
        return [outcomes[part.name] for part in self._parts]

    def _run_in_turn(self, take: Callable[[], Part]) -> dict[str, Outcome]:
        """Return the outcome of each part that ``take`` returns, until no part remains."""
        outcomes = {}
        while part := self._take_next(take):
            left = DEADLINE - self.seconds
            if left <= 0 or self._is_stopped:
                outcomes[part.name] = NOT_RUN
                continue
            self._console.print(f"begun: {part.name}", markup=False)
            outcomes[part.name] = outcome = self._run_part(part, min(part.most, left))
            if not outcome.has_survived:
                self._console.print(outcome.printed, markup=False)
            self._console.print(
                f"{part.name}: {outcome.verdict}, {outcome.seconds:.0f} s", markup=False
            )
        return outcomes

    @staticmethod
    def _take_next(take: Callable[[], Part]) -> Part | None:
        with suppress(IndexError):
            return take()
        return None

    def _run_part(self, part: Part, most: float) -> Outcome:
        """Run the tests of a part in another process for at most ``most`` seconds."""
        begun = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.xml"
            words = [f"--timeout={most:.0f}", f"--junitxml={report}", "-ojunit_family=xunit1"]
            command = [sys.executable, "-m", "pytest", "-q", "-n0", "--no-header", *words]
            printed = Path(folder) / "printed.txt"
            stopped = self._run_command([*command, *part.tests], part, most, printed)
            output = printed.read_text(errors="replace")
            cases = _read_cases(report) if report.exists() else []
        failed = [
            case.get("name", "")
            for case in cases
            if _has_outcome(case, "failure") or _has_outcome(case, "error")
        ]
        skipped = sum(_has_outcome(case, "skipped") for case in cases)
        return Outcome(
            passed=len(cases) - len(failed) - skipped,
            failed=(*failed, *([f"stopped after {most:.0f} seconds"] if stopped else [])),
            skipped=skipped,
            tried=tuple(
                f"{item.get('value')}"
                for case in cases
                for item in case.iter("property")
                if item.get("name") == TRIED
            ),
            seconds=time.monotonic() - begun,
            printed=output,
        )

    def _run_command(self, command: Sequence[str], part: Part, most: float, printed: Path) -> bool:
        """Run a command with its output in a file, and return whether it was stopped."""
        environment = {**os.environ, SCALE: "whole", **part.variables}
        # Not to a pipe: it stays open until all started processes end.
        with (
            printed.open("w") as output,
            subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            ) as process,
        ):
            self._running.add(process)
            try:
                process.wait(timeout=most)
            except subprocess.TimeoutExpired:
                # As with Ctrl-C, so that the tests stop their own processes.
                process.send_signal(signal.SIGINT)
                try:
                    process.wait(timeout=ENDING)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                return True
            else:
                return False
            finally:
                self._running.discard(process)


def _is_chosen(part: Part, only: list[str]) -> bool:
    return not only or any(word.lower() in part.name.lower() for word in only)


def _read_cases(report: Path) -> list[ET.Element]:
    tree = ET.parse(report)  # noqa: S314 - written by pytest, for this process
    return list(tree.iter("testcase"))


def _has_outcome(case: ET.Element, outcome: str) -> bool:
    return case.find(outcome) is not None


if __name__ == "__main__":
    sys.exit(main())
