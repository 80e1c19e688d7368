# SPDX-License-Identifier: Apache-2.0
"""All tests in named parts, with a table of results (``make test-all``).

A part that fails does not stop the run. The exit status is 1 if a part failed.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.results import FAILED, OUTCOMES, RESULTS_VARIABLE, SKIPPED, read_results

#: A part that takes longer ends the run.
MAX_PART_SECONDS = 2 * 3600
#: Exit status of such a part, as of the command timeout.
TIMEOUT_STATUS = 124
_PAGES_ON_A_MACHINE = "tests/deploy/test_pages_on_a_machine.py"
_COPIES = "tests/extensions/test_copies.py"


@dataclass(frozen=True)
class Part:
    """A part of ``make test-all``: its target of make, and its contents."""

    name: str
    target: tuple[str, ...]
    contents: str


def _make_pytest_part(name: str, arguments: str, contents: str, workers: int = 3) -> Part:
    target = ("test", "LANE=all", f"WORKERS={workers}", f"PYTEST_ARGS={arguments}")
    return Part(name, target, contents)


PARTS = (
    _make_pytest_part(
        "tests",
        f"--ignore=tests/deploy --ignore=tests/docs --ignore={_COPIES}",
        "all cases of the tests that no other part runs",
    ),
    _make_pytest_part(
        "deploy",
        f"--ignore={_PAGES_ON_A_MACHINE} tests/deploy",
        "proxies, images, units, monitoring, upgrades",
    ),
    _make_pytest_part(
        "guide",
        f"{_PAGES_ON_A_MACHINE} tests/docs",
        "the guide, typed on a Debian, and its examples",
    ),
    _make_pytest_part("copies", _COPIES, "the core without each extension", workers=2),
    Part("chaos", ("test-only", "WHAT=chaos"), "kills, cuts, full disks, overload, attacks"),
    Part(
        "loader",
        ("test-only", "WHAT=loader", "LANE=all"),
        "searches, explanations and APIs without the provider cache",
    ),
    Part("mysql", ("test-only", "WHAT=mysql"), "tests of each database, on MySQL"),
    Part("nova", ("test-only", "WHAT=nova-functional"), "nova's functional tests"),
    Part("soak", ("test-only", "WHAT=soak", "MINUTES=3"), "long use of a server"),
)


@dataclass(frozen=True)
class PartResult:
    """Exit status of a part (None: not run), and the results of its tests."""

    exit_status: int | None
    results: Sequence[dict[str, str]] = ()
    seconds: float = 0

    @property
    def summary(self) -> str:
        if self.exit_status is None:
            return "not run"
        if self.exit_status == 0:
            return "passed"
        has_failed_test = any(result["outcome"] == FAILED for result in self.results)
        return "failed" if has_failed_test else f"failed: exit status {self.exit_status}"


def main() -> int:
    """Run the parts and print the table.

    Returns 1 if a part failed or did not run.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.run_parts", description=__doc__)
    parser.add_argument(
        "parts", nargs="*", help="names of parts: " + ", ".join(part.name for part in PARTS)
    )
    names = parser.parse_args().parts
    if unknown := set(names) - {part.name for part in PARTS}:
        parser.error(
            f"no part is called {', '.join(sorted(unknown))}. The parts are "
            + ", ".join(part.name for part in PARTS)
        )
    parts = [part for part in PARTS if not names or part.name in names]
    results = run_parts(parts)
    print_results(parts, results, Console())
    return int(any(results[part.name].exit_status != 0 for part in parts))


def run_parts(parts: Iterable[Part], make: Sequence[str] = ("make",)) -> dict[str, PartResult]:
    """Run parts in turn until Ctrl-C or the end of the time of a part."""
    results = {part.name: PartResult(None) for part in parts}
    for part in parts:
        try:
            results[part.name] = run_part(part, make)
        except subprocess.TimeoutExpired:
            results[part.name] = PartResult(TIMEOUT_STATUS, seconds=MAX_PART_SECONDS)
            break
        except KeyboardInterrupt:
            break
    return results


def run_part(part: Part, make: Sequence[str]) -> PartResult:
    """Run the target of a part, and collect the results that its tests record."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "results"
        process = subprocess.run(
            [*make, "--no-print-directory", *part.target],
            env={**os.environ, RESULTS_VARIABLE: str(path)},
            check=False,
            timeout=MAX_PART_SECONDS,
        )
        results = tuple(read_results(path).values())
    return PartResult(process.returncode, results, time.monotonic() - begin)


def print_results(parts: Iterable[Part], results: dict[str, PartResult], console: Console) -> None:
    """Print a table of the parts, the failed tests and the reasons to skip."""
    table = Table("Part", "Contents", "Result", *map(str.capitalize, OUTCOMES), "Minutes")
    for part in parts:
        result = results[part.name]
        counts = Counter(test["outcome"] for test in result.results)
        numbers = [str(counts[outcome]) for outcome in OUTCOMES]
        minutes = f"{result.seconds / 60:.1f}"
        table.add_row(part.name, part.contents, result.summary, *numbers, minutes)
    console.print(table)
    for part in parts:
        tests = results[part.name].results
        for test in tests:
            if test["outcome"] == FAILED:
                console.print(f"{part.name}: failed: {test['test']}", markup=False)
        reasons = Counter(test["reason"] for test in tests if test["outcome"] == SKIPPED)
        for reason, count in reasons.most_common():
            console.print(f"{part.name}: {count} skipped: {reason}", markup=False)


if __name__ == "__main__":
    sys.exit(main())
