# SPDX-License-Identifier: Apache-2.0
"""Each lane runs the tests that its description promises."""

import re
import sys

import pytest

from placement_sched.scheduler.filters import all_filters
from placement_sched.scheduler.request_filters import all_request_filters
from placement_sched.scheduler.weights import all_weighers
from tests.chaos.parts import CHAOS_PARTS
from tests.conftest import COMMON_OPTIONS, make_settings
from tests.house.served_routes import is_requested_by_a_test, list_violating_routes
from tests.lanes import LANE_MARKERS, MARKERS_BY_LANE, is_run_by_other_target, may_have_tests
from tests.support.commands import run_captured
from tests.support.repository import PACKAGE, ROOT

pytestmark = pytest.mark.slow

TESTS_FOLDER = ROOT / "tests"
#: Modules that name plugins without running them.
PLUGIN_LISTING_MODULE = "test_plugins"
#: A module of the lane of `make test`, with a test that has another marker.
MODULE_WITH_TWO_MARKERS = """
import pytest

pytestmark = pytest.mark.slow

@pytest.mark.{marker}
def test_marked_{marker}():
    pass

def test_of_module():
    pass
"""


def list_lane_modules(lane):
    """Return the test modules that may have tests of a lane, with their texts."""
    texts = {path: path.read_text() for path in TESTS_FOLDER.rglob("test_*.py")}
    return {path: text for path, text in texts.items() if may_have_tests(text, lane)}


def test_setup_cfg_describes_each_lane_marker():
    described = re.findall(
        r"^    (\w+): .*make test", (ROOT / "setup.cfg").read_text(), re.MULTILINE
    )
    assert set(LANE_MARKERS) - set(described) == set()


def test_every_package_has_fast_tests():
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    fast = {path.relative_to(TESTS_FOLDER).parts[0] for path in list_lane_modules("fast")}
    assert packages - fast == set()


def test_every_route_has_a_test_in_make_test():
    modules = list_lane_modules("test")
    assert list_violating_routes(lambda served: is_requested_by_a_test(served, modules)) == []


@pytest.mark.parametrize("kind", [all_filters, all_weighers, all_request_filters])
def test_every_plugin_has_a_test_in_make_test(kind):
    texts = [
        text
        for path, text in list_lane_modules("test").items()
        if PLUGIN_LISTING_MODULE not in path.name
    ]
    names = set(re.findall(r"\w+", "\n".join(texts)))
    assert {plugin.__name__ for plugin in kind()} - names == set()


def test_chaos_parts_contain_every_test_with_the_chaos_marker():
    """No other target runs them."""
    places = [
        ROOT / name for part in CHAOS_PARTS for name in part.tests if name.startswith("tests/")
    ]
    marked = [
        path
        for path in TESTS_FOLDER.rglob("test_*.py")
        if re.search(r"\bmark\.chaos\b", path.read_text()) and path.name != "test_lanes.py"
    ]
    assert marked
    assert [path for path in marked if not any(map(path.is_relative_to, places))] == []


def test_modules_that_other_targets_run_are_left_out_of_lane_all():
    assert is_run_by_other_target(TESTS_FOLDER / "chaos" / "faults" / "test_silence.py")
    assert is_run_by_other_target(TESTS_FOLDER / "chaos" / "test_galera_failures.py")
    assert not is_run_by_other_target(TESTS_FOLDER / "galera" / "test_transactions.py")
    assert is_run_by_other_target(TESTS_FOLDER / "nova" / "functional" / "test_sound_selection.py")


def run_pytest_on_lane(folder, lane, *arguments):
    """Run pytest on the tests of a folder, which are no part of the suite; return its output."""
    command = [sys.executable, "-m", "pytest", "-c", "setup.cfg", "-p", "tests.lanes"]
    command += ["-p", "no:cacheprovider", "--lane", lane, *arguments, str(folder)]
    process = run_captured(command, cwd=ROOT, timeout=120)
    return process.stdout


def collect_test_names(folder, lane):
    """Return the names of the tests of a folder that a lane runs."""
    return set(re.findall(r"::(\w+)", run_pytest_on_lane(folder, lane, "--collect-only", "-q")))


@pytest.mark.parametrize(
    "lane",
    [
        pytest.param(lane, marks=[] if lane == "test" else pytest.mark.exhaustive)
        for lane in MARKERS_BY_LANE
    ],
)
def test_slowest_marker_decides_the_lane_of_a_test(lane, tmp_path):
    for marker in (*LANE_MARKERS, "all_databases"):
        (tmp_path / f"test_{marker}.py").write_text(MODULE_WITH_TWO_MARKERS.format(marker=marker))
    expected = {f"test_marked_{marker}" for marker in MARKERS_BY_LANE[lane] & set(LANE_MARKERS)}
    if "slow" in MARKERS_BY_LANE[lane]:
        expected |= {"test_of_module", "test_marked_all_databases"}
    assert collect_test_names(tmp_path, lane) == expected


MODULE_WITH_PARAMETERS = """
import pytest

@pytest.mark.parametrize("case", [1, 2])
def test_fast(case):
    pass

@pytest.mark.parametrize("case", [1, 2])
@pytest.mark.parametrize("database_url", ["sqlite", "mysql"])
@pytest.mark.all_databases
def test_with_database(case, database_url):
    pass

@pytest.mark.slow
def test_slow():
    pass

@pytest.mark.parametrize("case", [1, 2])
@pytest.mark.parametrize("database_url", ["sqlite", "mysql"])
@pytest.mark.system
def test_system(case, database_url):
    pass
"""


def test_each_lane_collects_its_cases_of_parametrized_tests(tmp_path):
    (tmp_path / "test_cases.py").write_text(MODULE_WITH_PARAMETERS)
    fast, slow, whole, system = (
        re.findall(r"::(\S+)", run_pytest_on_lane(tmp_path, lane, "--collect-only", "-q"))
        for lane in ("fast", "slow", "test", "system")
    )
    assert fast == ["test_fast[1]", "test_with_database[sqlite-1]"]
    others = ["test_fast[2]", "test_with_database[sqlite-2]", "test_with_database[mysql-1]"]
    assert slow == [*others, "test_slow"]
    assert sorted(fast + slow) == sorted(whole)
    assert system == ["test_system[sqlite-1]", "test_system[sqlite-2]", "test_system[mysql-1]"]


MODULE_THAT_STARTS_PROCESSES = """
import multiprocessing, socket, subprocess, sys

def test_process():
    subprocess.run([sys.executable, "-c", ""])

def test_multiprocessing():
    multiprocessing.get_context("spawn").Process(target=print).start()

def test_server():
    socket.create_connection(("127.0.0.1", 5432))

def test_nothing():
    pass
"""


def test_fast_tests_with_a_process_or_server_fail(tmp_path):
    (tmp_path / "test_starting.py").write_text(MODULE_THAT_STARTS_PROCESSES)
    printed = run_pytest_on_lane(tmp_path, "fast")
    assert "3 failed, 1 passed" in printed
    assert printed.count("mark it `slow` or `system`") >= 3
    assert "10 slowest modules" in printed


def test_ci_runs_each_lane_by_its_make_target():
    text = (ROOT / ".ci" / "run").read_text()
    assert """targets=(lint test-fast 'test LANE=slow' test-system newest-python)""" in text
    assert 'step "make $target" make $target' in text


def test_loader_option_turns_the_provider_cache_off_and_leaves_out_its_tests():
    command = [sys.executable, "-m", "pytest", "--loader", "--collect-only", "-q", "-n", "0"]
    modules = ["tests/candidates/test_cached_requests.py", "tests/candidates/test_constraints.py"]
    printed = run_captured([*command, "-p", "no:cacheprovider", *modules], cwd=ROOT).stdout
    names = set(re.findall(r"(\w+)\.py::", printed))
    assert names == {"test_constraints"}
    assert "deselected" in printed


def test_common_options_apply_to_all_settings_without_the_option(monkeypatch):
    monkeypatch.setitem(COMMON_OPTIONS, "placement.providers_in_memory", False)
    assert not make_settings("sqlite://").placement.providers_in_memory
    with_cache = make_settings("sqlite://", placement__providers_in_memory=True)
    assert with_cache.placement.providers_in_memory
