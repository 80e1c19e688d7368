"""Which tests belong to which run: ``make test-fast``, ``make test`` and ``make test-system``.

``system`` tests need OpenStack's placement or nova, the ``openstack`` client, several processes or
whole server processes over a long time. ``make test`` runs all others on SQLite, PostgreSQL and
MariaDB. ``make test-fast`` (``--fast``) runs those of them that need neither a database server nor
another process, and sees to it: a test that starts a process there, or asks for a database server,
fails. It leaves out what takes seconds, runs a few of many cases that each start the application,
and draws few examples (``tests/exploring.py``), so that it takes less than 90 seconds on two cores.
"""

import sys
from collections import Counter
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent
SERVERS = {"postgresql", "mysql"}
SERVER_FIXTURES = {"postgresql_server", "mysql_server", "broker"}

#: Folders and modules of ``system`` tests.
SYSTEM = (
    "client",
    "coexistence",
    "differential",
    "deploy/test_apache.py",
    "deploy/test_backup.py",
    "deploy/test_board.py",
    "deploy/test_moving.py",
    "deploy/test_page.py",
    "deploy/test_repeating.py",
    "deploy/test_rolling_upgrade.py",
    "deploy/test_socket.py",
    "deploy/test_tls_in_front.py",
    "deploy/test_wsgi_examples.py",
    "docs/test_commands.py",
    "examples",
    "galera",
    "api/test_schemathesis.py",
    "bench/test_running.py",
    "chaos/probes/test_costs.py",
    "chaos/test_all_writes.py",
    "chaos/test_kills.py",
    "chaos/test_overload.py",
    "chaos/test_storage.py",
    "cli/test_kept_connections.py",
    "cli/test_old_files.py",
    "cli/test_reload.py",
    "cli/test_serve.py",
    "cli/test_serve_json_log.py",
    "cli/test_serve_log.py",
    "cli/test_serve_metrics.py",
    "cli/test_serve_notifications.py",
    "cli/test_serve_plugins.py",
    "cli/test_serve_slow_clients.py",
    "console/browser",
    "house/test_exploring.py",
    "house/test_packaging.py",
    "house/test_readme.py",
    "nova/cloud",
    "nova/functional",
    "operations/sync/test_races.py",
    "scheduler/test_select_races.py",
    "store/placement/test_allocations_race.py",
    "store/placement/test_change_log_transactions.py",
    "test_wsgi.py",
    "races",
)
#: Tests of these that ``make test`` runs all the same: a short form of each part of ``make chaos``
#: but of those that need OpenStack's placement or a cluster.
SHORT_FORMS = (
    "chaos/probes/test_costs.py::test_no_request_for_hardware_costs_a_second_of_cpu[sqlite]",
    "chaos/test_all_writes.py::test_nothing_breaks_where_all_write_everything_at_once[sqlite]",
    "chaos/test_all_writes.py::test_nothing_breaks_where_all_write_everything_at_once[postgresql]",
    "chaos/test_all_writes.py::test_nothing_breaks_where_all_write_everything_at_once[mysql]",
    "chaos/test_kills.py::test_one_worker_after_the_other_is_killed[postgresql]",
    "chaos/test_kills.py::test_one_of_two_servers_is_killed_with_its_workers[mysql]",
    "chaos/test_kills.py::test_single_processes_of_postgresql_are_killed",
    "chaos/test_kills.py::test_whole_database_is_killed_and_started_again[postgresql]",
    "chaos/test_kills.py::test_whole_database_is_killed_and_started_again[mariadb]",
    "chaos/test_overload.py::test_goodput_does_not_collapse_under_four_times_the_load[postgresql]",
    "chaos/test_storage.py::test_a_full_disk_refuses_writes_and_is_used_again_when_there_is_room[sqlite]",
    "cli/test_serve_slow_clients.py::test_a_body_that_stops_in_a_chunk_ends_as_well",
    "races/test_killed_workers.py::test_every_acknowledged_write_is_there_whole_and_no_refused_one[sqlite]",
    "store/placement/test_allocations_race.py::test_of_several_who_claim_a_whole_provider_exactly_one_wins[sqlite-2]",
)
#: Folders and modules whose tests start another process, or wait for a server in a thread.
PROCESSES = (
    "api/test_rules.py",
    "bench",
    "cli",
    "db/test_standby.py",
    "deploy",
    "docs",
    "faults",
    "house",
    "notifications",
    "operations/test_older_character_sets.py",
    "scheduler/test_filling.py",
    "scheduler/test_wrong_plugins.py",
    "test_wsgi.py",
)
#: Tests that take seconds: they load a cloud of hundreds of hosts or more, start many applications
#: at once, read every option's old names, or repeat over HTTP what others ask in process.
SLOW = (
    "api/scheduler/test_policy_stories.py",
    "api/test_gabbits.py::test_story_is_told_as_written_over_http",
    "api/test_repeated_parameters.py::test_thousands_of_values_are_answered_or_refused",
    "api/test_gabbits.py::test_a_story_leaves_nothing_at_the_address_it_was_told_to",
    "candidates/test_bounds.py",
    "candidates/test_changes_meanwhile.py",
    "candidates/test_statement_counts.py",
    "operations/demo",
    "scheduler/hosts/test_recorded_instances.py",
    "scheduler/policies/test_side_by_side.py",
    "scheduler/request_filters/test_never_widens.py::test_requests_drawn_have_candidates_left_and_candidates_lost",
    "scheduler/test_forbidden_cloud.py",
    "scheduler/test_statement_counts.py",
    "settings/test_old_names.py",
)
_LEAVE_OUT = "name its module in PROCESSES (tests/selection.py)"
#: How many cases of one test function are run that each start the application.
CASES = 3


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of ``make test-fast``."""
    parser.addoption(
        "--fast",
        action="store_true",
        help="neither database servers nor other processes, and in short",
    )


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the system tests; with ``--fast`` leave out what needs more than this process."""
    for item in items:
        name = f"{item.path.relative_to(TESTS)}::{item.name}"
        if _below(item.path, SYSTEM) and name not in SHORT_FORMS:
            item.add_marker("system")
    if not config.getoption("--fast"):
        return
    started: Counter[str] = Counter()
    fast, left_out = [], []
    for item in items:
        function = item.nodeid.partition("[")[0]
        kept = _is_fast(item) and started[function] < CASES
        if kept and "sqlite_template" in getattr(item, "fixturenames", ()):
            started[function] += 1
        (fast if kept else left_out).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = fast


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With ``--fast`` do not even import the modules that are left out whole."""
    left_out = (*SYSTEM, *PROCESSES, *SLOW)
    return (config.getoption("--fast") and _below(collection_path, left_out)) or None


@pytest.fixture(autouse=True, scope="session")
def _nothing_outside(request: pytest.FixtureRequest) -> None:
    """Forbid other processes and database servers to fast tests."""
    if request.config.getoption("--fast"):
        sys.addaudithook(_refuse)
        # What multiprocessing forks, a server that is running already may fork: without an event.
        BaseProcess.start = _refuse_start  # type: ignore[method-assign]


def _is_fast(item: pytest.Item) -> bool:
    parameters: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    named = {one for one in parameters.values() if isinstance(one, str)}
    on_server = SERVERS & {one.removesuffix("_server") for one in named}
    asked = SERVER_FIXTURES & set(getattr(item, "fixturenames", ()))
    by_mark = item.get_closest_marker("system")
    name = f"{item.path.relative_to(TESTS)}::{getattr(item, 'originalname', item.name)}"
    return not (on_server or asked or by_mark or name in SLOW)


def _below(path: Path, places: tuple[str, ...]) -> bool:
    return any(path.is_relative_to(TESTS / place) for place in places)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event in {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"}:
        pytest.fail(f"a fast test starts a process ({event} {arguments[:1]}): {_LEAVE_OUT}")
    if event == "socket.connect" and arguments[1][1:2] in {(3306,), (5432,), (5672,)}:
        pytest.fail(f"a fast test connects to a database server or broker: {_LEAVE_OUT}")


def _refuse_start(process: BaseProcess) -> None:
    pytest.fail(f"a fast test starts {process.name}: {_LEAVE_OUT}")
