# SPDX-License-Identifier: Apache-2.0
"""The extension that [DEFAULT] disabled_extensions leaves out."""

from contextlib import closing

import pytest

from placement_sched.app import create_app
from placement_sched.cli.main import main
from placement_sched.db.transaction import Database
from placement_sched.extensions.what_if import store
from placement_sched.operations.periodic import OldRowDeletion
from tests.conftest import AdminClient
from tests.extensions.what_if.stopped_runs import record_stopped_run
from tests.support.reports import NOW
from tests.support.scheduling import make_uuid
from tests.support.statements import run_query

DISABLED = {
    "DEFAULT.disabled_extensions": ["what_if"],
    "scheduler.failover_interval": 3600,
    "scheduler.capacity_flavors": ["small"],
    "scheduler.decision_retention": 60,
}


@pytest.fixture
def app(sqlite_settings):
    """An application without a check of its answers by the full document."""
    with closing(create_app(sqlite_settings.with_overrides(DISABLED))) as application:
        yield AdminClient(application)


def test_routes_of_the_disabled_extension_answer_404(app):
    for method, path in (
        ("POST", "capacity"),
        ("GET", "failover_capacity"),
        ("POST", "plan"),
        ("POST", "rebalance"),
        ("POST", "evacuation"),
        ("GET", "plan_runs"),
        ("GET", "violations"),
    ):
        send = app.get if method == "GET" else app.post_json
        response = send(f"/scheduler/v1/{path}", status=404).json
        assert response["errors"][0]["code"] == "scheduler.not_found", path
    resources = app.get("/scheduler/v1").json["resources"]
    absent = {"capacity", "failover_capacity", "plan", "evacuation", "rebalance", "plan_runs"}
    assert not {*absent, "violations"} & {*resources}


def test_disabled_extension_has_no_gauges_and_no_task(app):
    app.app.services.run_periodic_tasks()
    assert "placement_sched_scheduler_failover" not in app.get("/metrics").text
    assert "placement_sched_scheduler_capacity" not in app.get("/metrics").text
    with app.app.services.database.read() as connection:
        assert app.app.services.scheduler.caches.failover.get_current(connection) is None


def test_disabled_extension_deletes_no_old_rows(sqlite_settings):
    with Database(sqlite_settings) as database:
        record_stopped_run(database, 1, age=61)
        OldRowDeletion(database, sqlite_settings.with_overrides(DISABLED), lambda: NOW).run_round()
        assert [run.uuid for run in run_query(database, store.search, {})] == [make_uuid(1)]


@pytest.mark.parametrize(
    "command",
    [
        ("capacity", "m1.small"),
        ("plan", "--change", "drain=cn1"),
        ("plan-run", "list"),
        ("rebalance", "--goal", "pack"),
        ("host", "drain", "cn1"),
    ],
    ids=" ".join,
)
def test_command_of_the_disabled_extension_ends_with_an_error(
    tmp_path, sqlite_url, capsys, command
):
    file = tmp_path / "placement_sched.conf"
    sections = {
        "DEFAULT": "disabled_extensions = what_if",
        "placement_database": f"connection = {sqlite_url}",
    }
    file.write_text("".join(f"[{name}]\n{line}\n" for name, line in sections.items()))
    assert main([*command, "--config-file", str(file)]) == 1
    error = capsys.readouterr().err
    assert "the extension what_if is disabled by [DEFAULT] disabled_extensions" in error
