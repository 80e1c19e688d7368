# SPDX-License-Identifier: Apache-2.0
"""Results of tests in a file, for the table of ``make test-all``.

The environment variable names the file, which has a JSON object for each result.
"""

import json
import os
from pathlib import Path

import pytest

RESULTS_VARIABLE = "PLACEMENT_SCHED_TEST_RESULTS"
PASSED, SKIPPED, FAILED = "passed", "skipped", "failed"
#: A test may have several results, such as a failure after it passed. The last of these counts.
OUTCOMES = (PASSED, SKIPPED, FAILED)


def record_result(path: str, test: str, outcome: str, reason: str = "") -> None:
    """Append the result of a test to the file ``path``."""
    with Path(path).open("a") as file:
        file.write(json.dumps({"test": test, "outcome": outcome, "reason": reason}) + "\n")


def read_results(path: Path) -> dict[str, dict[str, str]]:
    """Return the result of each test in a file, which may not exist."""
    results: dict[str, dict[str, str]] = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        result = json.loads(line)
        earlier = results.setdefault(result["test"], result)
        results[result["test"]] = max(
            earlier, result, key=lambda each: OUTCOMES.index(each["outcome"])
        )
    return results


class ResultRecorder:
    """Records the results of a pytest run, in its reporting process."""

    def __init__(self, path: str) -> None:
        self._path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record the result of a test's setup, call or teardown."""
        if report.skipped and not hasattr(report, "wasxfail"):
            *_, reason = report.longrepr if isinstance(report.longrepr, tuple) else ("",)
            record_result(self._path, report.nodeid, SKIPPED, str(reason).removeprefix("Skipped: "))
        elif report.failed or report.when == "call":
            record_result(self._path, report.nodeid, FAILED if report.failed else PASSED)


def pytest_configure(config: pytest.Config) -> None:
    """Record the results if the environment names a file.

    Processes that tests start record nothing.
    """
    path = os.environ.pop(RESULTS_VARIABLE, "")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(ResultRecorder(path))
