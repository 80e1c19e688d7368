# SPDX-License-Identifier: Apache-2.0
"""Chaos tests at full length, with a table of results (``make test-only WHAT=chaos``).

The parts are tests of the suite, which pytest runs in a short form. Here each tries more, and says
how much it tried; the table has a line for each, and the exit status is 1 if one did not survive. A
part that takes longer than it may is stopped, and did not survive; nor did one for which no time is
left. All is over within 20 minutes. The output of a part is shown if it did not survive.
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

#: Seconds in which a part that is stopped may end what it has started.
ENDING = 60


@dataclass(frozen=True)
class Outcome:
    """What the tests of a part came to; ``tried`` says how much they did."""

    passed: int
    failed: tuple[str, ...]
    skipped: int
    tried: tuple[str, ...]
    seconds: float
    printed: str = ""

    @property
    def has_survived(self) -> bool:
        """Return whether something was tried, nothing failed and nothing was left out."""
        return bool(self.passed) and not self.failed and not self.skipped

    @property
    def verdict(self) -> str:
        """Return it in words."""
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
    """Try the parts that are asked for, print the table, and return 1 where one did not survive."""
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
    for part, one in zip(chosen, outcomes, strict=True):
        much = "\n".join(one.tried) or f"{one.passed} tests"
        table.add_row(part.name, much, one.verdict, f"{one.seconds:.0f}")
    console.print(table)
    survived = sum(one.has_survived for one in outcomes)
    console.print(f"{survived} of {len(chosen)} survived, in {trial.seconds / 60:.1f} minutes")
    return 0 if chosen and survived == len(chosen) else 1


class _ChaosRun:
    """Runs parts: those that measure, one by one, then those that wait beside the others."""

    def __init__(self, parts: Sequence[Part], console: Console) -> None:
        self._parts, self._console = parts, console
        self._begun = time.monotonic()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._is_stopped = False

    @property
    def seconds(self) -> float:
        """Return how long it has taken so far."""
        return time.monotonic() - self._begun

    def run(self) -> list[Outcome]:
        """Return what came of each part; Ctrl-C stops those that run, and no other begins."""
        alone = deque(part for part in self._parts if part.alone)
        together = [part for part in self._parts if not part.alone]
        busy = [part for part in together if not part.waits]
        # One lane begins with those that work, one with those that wait, until the two meet.
        left = deque([*busy, *reversed([part for part in together if part.waits])])
        found: dict[str, Outcome] = {}
        with ThreadPoolExecutor(2) as pool:
            try:
                found |= pool.submit(self._run_in_turn, alone.popleft).result()
                lanes = [pool.submit(self._run_in_turn, take) for take in (left.pop, left.popleft)]
                for running in lanes:
                    found |= running.result()
            except KeyboardInterrupt:
                self._is_stopped = True
                for process in list(self._running):
                    process.send_signal(signal.SIGINT)
                raise
        return [found[part.name] for part in self._parts]

    def _run_in_turn(self, take: Callable[[], Part]) -> dict[str, Outcome]:
        """Return what came of each part that ``take`` gives, until there is none left."""
        found = {}
        while part := self._take_next(take):
            left = DEADLINE - self.seconds
            if left <= 0 or self._is_stopped:
                found[part.name] = NOT_RUN
                continue
            self._console.print(f"begun: {part.name}", markup=False)
            found[part.name] = outcome = self._run_part(part, min(part.most, left))
            if not outcome.has_survived:
                self._console.print(outcome.printed, markup=False)
            self._console.print(
                f"{part.name}: {outcome.verdict}, {outcome.seconds:.0f} s", markup=False
            )
        return found

    @staticmethod
    def _take_next(take: Callable[[], Part]) -> Part | None:
        with suppress(IndexError):
            return take()
        return None

    def _run_part(self, part: Part, most: float) -> Outcome:
        """Run the tests of a part in a process of their own, for so many seconds at most."""
        begun = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.xml"
            words = [f"--timeout={most:.0f}", f"--junitxml={report}", "-ojunit_family=xunit1"]
            command = [sys.executable, "-m", "pytest", "-q", "-n0", "--no-header", *words]
            printed = Path(folder) / "printed.txt"
            stopped = self._run_command([*command, *part.tests], part, most, printed)
            told = printed.read_text(errors="replace")
            cases = _read_cases(report) if report.exists() else []
        failed = [
            one.get("name", "")
            for one in cases
            if _has_outcome(one, "failure") or _has_outcome(one, "error")
        ]
        skipped = sum(_has_outcome(one, "skipped") for one in cases)
        return Outcome(
            passed=len(cases) - len(failed) - skipped,
            failed=(*failed, *([f"stopped after {most:.0f} seconds"] if stopped else [])),
            skipped=skipped,
            tried=tuple(
                f"{one.get('value')}"
                for case in cases
                for one in case.iter("property")
                if one.get("name") == TRIED
            ),
            seconds=time.monotonic() - begun,
            printed=told,
        )

    def _run_command(self, command: Sequence[str], part: Part, most: float, printed: Path) -> bool:
        """Run a command that prints to a file; return whether it had to be stopped."""
        environment = {**os.environ, SCALE: "whole", **part.variables}
        # Not to a pipe, whose end is not seen before that of all processes that were started.
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
                # As with Ctrl-C: the tests end what they started.
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
