# SPDX-License-Identifier: Apache-2.0
"""Runs of nova's functional tests in several processes, and their results."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue

from tests.nova.functional.selection import find_group_of_test
from tests.nova.functional.worker import (
    FAILED,
    OPENSTACK_PLACEMENT,
    OUR_PLACEMENT,
    PASSED,
    TestResult,
    Worker,
    run_worker,
)

#: Results by test.
ResultsByTest = Mapping[str, TestResult]


def run_tests(
    service: str, tests: Sequence[str], processes: int, folder: Path
) -> Iterator[TestResult]:
    with ExitStack() as stack:
        idle: SimpleQueue[Worker] = SimpleQueue()
        for number in range(min(processes, len(tests))):
            idle.put(stack.enter_context(run_worker(service, folder / f"{service}{number}")))

        def run_in_idle_worker(test: str) -> TestResult:
            worker = idle.get()
            try:
                return worker.run_test(test)
            finally:
                idle.put(worker)

        pool = stack.enter_context(ThreadPoolExecutor(processes))
        for done in as_completed([pool.submit(run_in_idle_worker, test) for test in tests]):
            yield done.result()


def collect_results(
    service: str,
    tests: Sequence[str],
    processes: int,
    folder: Path,
    progress: Callable[[TestResult], None],
) -> ResultsByTest:
    results = {}
    for ended in run_tests(service, tests, processes, folder):
        results[ended.test] = ended
        progress(ended)
    failed = [result.test for result in results.values() if result.outcome == FAILED]
    for ended in run_tests(service, failed, 1, folder):
        results[ended.test] = replace(ended, text=ended.text or results[ended.test].text)
    return results


def format_table(results: Mapping[str, ResultsByTest]) -> Iterator[str]:
    services = list(results)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for service, ends in results.items():
        for test, ended in ends.items():
            counts[find_group_of_test(test)][service] += ended.outcome == PASSED
            counts["all"][service] += ended.outcome == PASSED
    tests = Counter(find_group_of_test(test) for ends in results.values() for test in ends)
    tests["all"] = sum(tests.values())
    heads = {OUR_PLACEMENT: "with ours", OPENSTACK_PLACEMENT: "with placement"}
    yield f"{'':44}{'tests':>8}" + "".join(f"{heads[service]:>16}" for service in services)
    for group in (*sorted(counts.keys() - {"all"}), "all"):
        passed = "".join(f"{counts[group][service]:>16}" for service in services)
        yield f"{group:44}{tests[group] // len(services):>8}{passed}"


def find_unexpected_failures(
    ours: ResultsByTest, known_failures: Iterable[str]
) -> list[TestResult]:
    expected = set(known_failures)
    return [each for each in ours.values() if each.outcome == FAILED and each.test not in expected]
