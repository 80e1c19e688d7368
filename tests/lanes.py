# SPDX-License-Identifier: Apache-2.0
"""Test lanes: the tests of ``make test-fast``, ``make test`` and further targets.

Markers in the test files decide the lane of a test:

========================  =========================================================
no marker                 ``make test-fast`` and ``make test``
``slow``                  ``make test``: starts a process or a server, or takes seconds
``system``                ``make test-system``
``exhaustive``            ``make test-all``
``chaos``                 ``make test-only WHAT=chaos``, which ``make test-all`` includes
========================  =========================================================

The last of several markers decides. The lanes ``all`` and ``everywhere`` leave out the modules that
``make test-only WHAT=chaos`` or ``make test-only WHAT=nova-functional`` runs at length. A test
that uses ``settings``, ``database`` or ``app`` runs on SQLite. If the test or its module is marked
``all_databases``, it also runs on PostgreSQL and MariaDB. ``make test LANE=everywhere`` runs each
of its tests on all three.

The lane ``fast`` runs the first case of each parametrized test. The lane ``slow`` is the lane
``test`` without the lane ``fast``, for CI, which runs both. ``test``, ``slow`` and ``system`` run
the first case of a test on each database server, and ``make test-all`` runs all cases that are
not marked ``repeated``.

Without ``--lane``, pytest runs all tests of its arguments.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.parts import CHAOS_PARTS

_ROOT = Path(__file__).resolve().parents[1]
#: The markers that decide the lane, from the fastest to the slowest lane.
LANE_MARKERS = ("slow", "system", "exhaustive", "repeated", "chaos")
#: The values of ``--lane`` and the markers of their tests. "" is the absence of a marker.
MARKERS_BY_LANE = {
    "fast": {""},
    "test": {"", "slow"},
    "slow": {"", "slow"},
    "system": {"system"},
    "all": {"", "slow", "system", "exhaustive"},
    "everywhere": {"", "slow", "system", "exhaustive", "repeated"},
}
#: The module that ``make test-only WHAT=nova-functional`` runs with nova's other tests.
_NOVA_FUNCTIONAL_MODULE = "tests/nova/functional/test_sound_selection.py"
#: Number of modules in the summary.
SLOWEST_MODULE_COUNT = 10
DATABASE_SERVERS = {"postgresql", "mysql"}
SERVER_FIXTURES = {"postgresql_server", "mysql_server", "broker"}
_SERVER_PORTS = {3306, 5432, 5672}
_MARKER_PATTERN = re.compile(r"\bmark\.(\w+)")
_MODULE_MARKERS_PATTERN = re.compile(r"^pytestmark = (\[[^\]]*\]|.*)", re.MULTILINE)
_PROCESS_START_EVENTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"}
_MARK_SLOW_ADVICE = "mark it `slow` or `system` (tests/lanes.py)"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--lane``."""
    parser.addoption("--lane", choices=MARKERS_BY_LANE, help="run only the tests of this lane")


def get_lane(config: pytest.Config) -> str | None:
    """Return the value of ``--lane``, or None."""
    return config.getoption("--lane", default=None)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip modules that have no test in the lane, without importing them."""
    lane = get_lane(config)
    if lane is None or not collection_path.match("test_*.py"):
        return None
    if "exhaustive" in MARKERS_BY_LANE[lane] and is_run_by_other_target(collection_path):
        return True
    return not may_have_tests(collection_path.read_text(), lane) or None


def is_run_by_other_target(path: Path) -> bool:
    """Return whether ``make test-only`` runs all tests of a module."""
    places = [_NOVA_FUNCTIONAL_MODULE]
    places += [place for part in CHAOS_PARTS if "-k" not in part.tests for place in part.tests]
    return any(path.is_relative_to(_ROOT / place) for place in places)


def may_have_tests(text: str, lane: str) -> bool:
    """Return whether the text of a test module may contain tests of a lane.

    A test can only have the marker of a slower lane than its module.
    """
    markers = MARKERS_BY_LANE[lane]
    module = _MODULE_MARKERS_PATTERN.search(text)
    if module and _get_marker_rank(find_slowest_marker(_MARKER_PATTERN.findall(module[1]))) > max(
        map(_get_marker_rank, markers)
    ):
        return False
    return "" in markers or not markers.isdisjoint(_MARKER_PATTERN.findall(text))


@pytest.hookimpl(tryfirst=True)  # before pytest's own selection by -m
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that need a database server, and select the tests of the lane."""
    for item in items:
        if _needs_database_or_broker(item):
            item.add_marker("slow")
        if _is_repeated_on_server(item):
            item.add_marker("repeated")
    lane = get_lane(config)
    if lane is None:
        return
    seen = set()
    selected, deselected = [], []
    for item in items:
        marker = find_slowest_marker(mark.name for mark in item.iter_markers())
        server = _find_database_parameter(item)
        key = item.nodeid.partition("[")[0], server
        is_first = key not in seen
        seen.add(key)
        is_selected = marker in MARKERS_BY_LANE[lane]
        if marker == "" and lane in {"fast", "slow"}:
            is_selected = is_first == (lane == "fast")
        elif server and lane in {"test", "slow", "system"}:
            is_selected = is_selected and is_first
        (selected if is_selected else deselected).append(item)
    config.hook.pytest_deselected(items=deselected)
    # Long tests are first, because they would otherwise run alone at the end.
    items[:] = sorted(selected, key=_get_own_timeout, reverse=True)


def _get_own_timeout(item: pytest.Item) -> float:
    """Return the timeout in seconds of a test's own marker, or 0."""
    mark = item.get_closest_marker("timeout")
    return float(mark.args[0]) if mark and mark.args else 0.0


def _get_marker_rank(marker: str) -> int:
    return LANE_MARKERS.index(marker) if marker else -1


def find_slowest_marker(markers: Iterable[str]) -> str:
    """Return the marker that decides the lane, or ""."""
    return max(set(LANE_MARKERS).intersection(markers), key=_get_marker_rank, default="")


def _get_parameters(item: pytest.Item) -> dict[str, Any]:
    return getattr(getattr(item, "callspec", None), "params", {})


def _needs_database_or_broker(item: pytest.Item) -> bool:
    """Return whether a parameter or fixture of a test is a database server or the broker."""
    return bool(_find_database_parameter(item) or SERVER_FIXTURES & set(item.fixturenames))


def _find_database_parameter(item: pytest.Item) -> str:
    """Return the database server that a parameter of a test names, or ""."""
    names = (value for value in _get_parameters(item).values() if isinstance(value, str))
    return next((name for name in names if name.removesuffix("_server") in DATABASE_SERVERS), "")


def _is_repeated_on_server(item: pytest.Item) -> bool:
    """Return whether a test that does not depend on the database is repeated on a server."""
    if _get_parameters(item).get("database_url") not in DATABASE_SERVERS:
        return False
    chosen = any("database_url" in str(mark.args[:1]) for mark in item.iter_markers("parametrize"))
    return not chosen and item.get_closest_marker("all_databases") is None


@pytest.fixture(autouse=True, scope="session")
def _forbid_processes_in_fast_lane(request: pytest.FixtureRequest) -> None:
    """Fail a test of the fast lane that starts a process or connects to a server.

    Python has no event for connections of psycopg. ``conftest.py`` prevents them: it replaces the
    URLs of the servers.
    """
    if get_lane(request.config) == "fast":
        sys.addaudithook(_fail_on_forbidden_audit_event)
        # The fork server of multiprocessing may already run, and its forks raise no event here.
        BaseProcess.start = _fail_at_process_start  # type: ignore[method-assign]


def _fail_on_forbidden_audit_event(event: str, arguments: tuple[Any, ...]) -> None:
    if event in _PROCESS_START_EVENTS:
        pytest.fail(
            f"a test of the fast lane starts {arguments[:1]} ({event}): {_MARK_SLOW_ADVICE}"
        )
    if event == "socket.connect" and _get_port(arguments[1]) in _SERVER_PORTS:
        pytest.fail(f"a test of the fast lane connects to a server: {_MARK_SLOW_ADVICE}")


def _get_port(address: object) -> object:
    return address[1] if isinstance(address, tuple) else None


def _fail_at_process_start(process: BaseProcess) -> None:
    pytest.fail(f"a test of the fast lane starts {process.name}: {_MARK_SLOW_ADVICE}")


class SlowestModuleReporter:
    """The seconds of each test module, printed at the end of a run."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the seconds of a test's setup, call or teardown."""
        self._seconds[report.nodeid.partition("::")[0]] += report.duration

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the slowest modules."""
        if get_lane(terminalreporter.config) is None or not self._seconds:
            return
        terminalreporter.section(f"{SLOWEST_MODULE_COUNT} slowest modules (seconds, all tests)")
        rows = sorted(self._seconds.items(), key=lambda row: -row[1])
        for module, seconds in rows[:SLOWEST_MODULE_COUNT]:
            terminalreporter.line(f"{seconds:8.1f}  {module}")


def pytest_configure(config: pytest.Config) -> None:
    """Measure in the reporting process, which receives the results of the workers of xdist."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(SlowestModuleReporter())
