"""``make chaos``: everything that goes wrong in a cluster, tried at length, as a table.

The parts are tests, of which the suite runs a short form. Here each tries more, and says how much
it tried; the table has a line for each, and the exit status is 1 where one did not survive. A part
that takes longer than it may is stopped, and did not survive; nor did one for which no time is left
of the 20 minutes for all.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from rich.console import Console
from rich.table import Table

from tests.chaos.parts import DEADLINE, PARTS, Part
from tests.chaos.scale import SCALE, TRIED


@dataclass(frozen=True)
class Outcome:
    """What the tests of a part came to; ``tried`` says how much they did."""

    passed: int
    failed: tuple[str, ...]
    skipped: int
    tried: tuple[str, ...]
    seconds: float

    @property
    def survived(self) -> bool:
        """Return whether something was tried, nothing failed and nothing was left out."""
        return bool(self.passed) and not self.failed and not self.skipped

    @property
    def verdict(self) -> str:
        """Return it in words."""
        if self.survived:
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
    chosen = [part for part in PARTS if _is_asked(part, only)]
    console, begun = Console(), time.monotonic()
    outcomes = []
    for number, part in enumerate(chosen, 1):
        left = DEADLINE - (time.monotonic() - begun)
        if left <= 0:
            outcomes.append(NOT_RUN)
            continue
        console.print(f"[{number}/{len(chosen)}] {part.name}", markup=False)
        outcomes.append(_tried(part, min(part.most, left)))
    table = Table("Tried", "How much", "Survived", "Seconds", show_lines=True)
    for part, one in zip(chosen, outcomes, strict=True):
        much = "\n".join(one.tried) or f"{one.passed} tests"
        table.add_row(part.name, much, one.verdict, f"{one.seconds:.0f}")
    console.print(table)
    survived = sum(one.survived for one in outcomes)
    minutes = (time.monotonic() - begun) / 60
    console.print(f"{survived} of {len(chosen)} survived, in {minutes:.1f} minutes")
    return 0 if chosen and survived == len(chosen) else 1


def _is_asked(part: Part, only: list[str]) -> bool:
    return not only or any(word.lower() in part.name.lower() for word in only)


def _tried(part: Part, most: float) -> Outcome:
    """Run the tests of a part in a process of their own, for so many seconds at most."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        words = [f"--timeout={most:.0f}", f"--junitxml={report}", "-ojunit_family=xunit1"]
        stopped = _run(
            [sys.executable, "-m", "pytest", "-q", "-n0", "--no-header", *words, *part.tests],
            part,
            most,
        )
        cases = _cases(report) if report.exists() else []
    failed = [one.get("name", "") for one in cases if _is(one, "failure") or _is(one, "error")]
    skipped = sum(_is(one, "skipped") for one in cases)
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
    )


def _cases(report: Path) -> list[ET.Element]:
    tree = ET.parse(report)  # noqa: S314 - written by pytest, for this process
    return list(tree.iter("testcase"))


def _is(case: ET.Element, outcome: str) -> bool:
    return case.find(outcome) is not None


def _run(command: list[str], part: Part, most: float) -> bool:
    """Run a command; return whether it had to be stopped."""
    environment = {**os.environ, SCALE: "whole", **part.variables}
    with subprocess.Popen(command, env=environment, start_new_session=True) as process:
        try:
            process.wait(timeout=most)
        except subprocess.TimeoutExpired:
            # As with Ctrl-C: the tests end what they started.
            process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
            return True
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
            raise
    return False


if __name__ == "__main__":
    sys.exit(main())
