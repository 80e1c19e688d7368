# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.nova.functional``: nova's functional tests on this placement.

It prints the number of passed tests of each module. It fails if a test fails that passes with
openstack-placement (``failing_with_placement.yaml`` lists the others). ``make test-only
WHAT=nova-functional`` runs it.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from tests.nova.functional.running import (
    ResultsByTest,
    collect_results,
    find_unexpected_failures,
    format_table,
)
from tests.nova.functional.selection import (
    list_selected_modules,
    read_known_failures,
    read_requests_by_selected_test,
)
from tests.nova.functional.worker import (
    FAILED,
    OPENSTACK_PLACEMENT,
    OUR_PLACEMENT,
    PASSED,
    SKIPPED,
    TestResult,
    run_worker,
)
from tests.results import RESULTS_VARIABLE, record_result


def main() -> int:
    arguments = _parse_arguments()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with run_worker(OPENSTACK_PLACEMENT, folder / "list") as worker:
            tests = [
                test
                for test in worker.list_tests(list_selected_modules())
                if not arguments.only or any(part in test for part in arguments.only)
            ]
        results = {}
        for service in (
            (OUR_PLACEMENT, OPENSTACK_PLACEMENT) if arguments.beside else (OUR_PLACEMENT,)
        ):
            progress = _TestProgressPrinter(len(tests))
            results[service] = collect_results(
                service, tests, arguments.processes, folder, progress
            )
        failed = find_unexpected_failures(results[OUR_PLACEMENT], read_known_failures())
        again = results.get(OPENSTACK_PLACEMENT)
        if failed and again is None:
            names = [one.test for one in failed]
            again = collect_results(OPENSTACK_PLACEMENT, names, 1, folder, lambda _: None)
    print(*format_table(results), sep="\n")
    _record_results(results[OUR_PLACEMENT], failed)
    _print_failed_tests(failed, again or {})
    _print_skipped_tests(results[OUR_PLACEMENT])
    _print_tests_that_passed_when_repeated(results[OUR_PLACEMENT])
    _print_known_failures(results[OUR_PLACEMENT])
    _print_unselected_requests(results[OUR_PLACEMENT])
    return 1 if failed else 0


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.nova.functional", description=__doc__)
    parser.add_argument("only", nargs="*", help="parts of the names of the tests to run")
    parser.add_argument("--processes", type=int, default=2 * (os.cpu_count() or 1))
    parser.add_argument("--beside", action="store_true", help="run placement 16 too, and count")
    return parser.parse_args()


class _TestProgressPrinter:
    """Prints the number of finished tests on a terminal."""

    def __init__(self, tests: int) -> None:
        self._tests = tests
        self._done = 0

    def __call__(self, ended: TestResult) -> None:
        self._done += 1
        if ended.outcome == FAILED:
            print(f"failed: {ended.test}", file=sys.stderr, flush=True)
        if sys.stderr.isatty():
            print(f"{self._done} of {self._tests}", end="\r", file=sys.stderr, flush=True)


def _record_results(ours: ResultsByTest, failed: list[TestResult]) -> None:
    """Record the results for ``make test-all``.

    A failure that also occurs with openstack-placement counts as passed.
    """
    path = os.environ.get(RESULTS_VARIABLE, "")
    for ended in ours.values() if path else ():
        if ended.outcome == SKIPPED:
            record_result(path, ended.test, SKIPPED, ended.text.strip())
        else:
            record_result(path, ended.test, FAILED if ended in failed else PASSED)


def _print_failed_tests(failed: list[TestResult], theirs: ResultsByTest) -> None:
    for one in failed:
        beside = theirs[one.test].outcome
        print(f"\n--- {one.test}: {beside} with openstack-placement\n{one.text}")


def _print_skipped_tests(ours: ResultsByTest) -> None:
    for ended in ours.values():
        if ended.outcome == SKIPPED:
            print(f"skipped: {ended.test}: {ended.text.strip()}")


def _print_tests_that_passed_when_repeated(ours: ResultsByTest) -> None:
    for ended in ours.values():
        if ended.outcome == PASSED and ended.text:
            print(f"passed the second time: {ended.test}: {ended.text.strip().splitlines()[-1]}")


def _print_known_failures(ours: ResultsByTest) -> None:
    for test in read_known_failures():
        if test in ours and ours[test].outcome == PASSED:
            print(f"passes, yet it is in failing_with_placement.yaml: {test}")


def _print_unselected_requests(ours: ResultsByTest) -> None:
    sent = {request for ended in ours.values() for request in ended.requests}
    written = {request for request in sent if not request.startswith("GET ")}
    for request in sorted(written.difference(*read_requests_by_selected_test().values())):
        print(f"not in sound_selection.yaml: {request}")


if __name__ == "__main__":
    sys.exit(main())
