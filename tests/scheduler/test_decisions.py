# SPDX-License-Identifier: Apache-2.0
"""Decisions: recorded with the claim, limited in size, and deleted later."""

from contextlib import contextmanager
from datetime import datetime, timedelta

import pytest
from sqlalchemy import text

from placement_sched.errors import NoValidHost, Unavailable
from placement_sched.model.decision import Decision, PlacedInstance
from placement_sched.model.explanation import (
    CandidatesReport,
    FilterReport,
    Funnel,
    Rejected,
    RequestFilterReport,
)
from placement_sched.model.plan_run import PlanRun, RunMove
from placement_sched.scheduler.claim import ClaimMode
from placement_sched.scheduler.decisions import MAX_FUNNEL_BYTES, Retention, limit_size
from placement_sched.store import decisions, plan_runs
from tests.conftest import make_settings
from tests.support.scheduling import flavor, get_selected_hosts, instance, report, spec
from tests.support.statements import record_statements

NOW = datetime(2026, 1, 1, 12, 0, 0)


@pytest.fixture
def cloud(app):
    app.post_json("/scheduler/v1/compute_nodes", [report(f"cn{number}") for number in (1, 2)])
    return app


def count_rows(database, table):
    with database.read() as connection:
        return connection.scalar(text(f"SELECT count(*) FROM {table}"))


@contextmanager
def rename_table_temporarily(database, table):
    """Rename a table for the time of a block."""

    def rename(before, after):
        statement = text(f"ALTER TABLE {before} RENAME TO {after}")
        database.write(lambda connection: connection.execute(statement))

    rename(table, f"{table}_away")
    try:
        yield
    finally:
        rename(f"{table}_away", table)


@pytest.mark.all_databases
def test_claim_without_its_decision_is_rolled_back(cloud):
    database = cloud.app.services.database
    with rename_table_temporarily(database, "sched_decision_places"), pytest.raises(Unavailable):
        cloud.app.services.scheduler.select_destinations(spec(instance(1)))
    for table in ("allocations", "sched_instances", "sched_decisions"):
        assert count_rows(database, table) == 0


def test_selection_without_a_claim_succeeds_if_its_decision_fails(cloud):
    scheduler, database = cloud.app.services.scheduler, cloud.app.services.database
    with rename_table_temporarily(database, "sched_decision_places"):
        answer = scheduler.select_destinations(spec(instance(1)), claiming=ClaimMode.NONE).answer
        with pytest.raises(NoValidHost):
            scheduler.select_destinations(spec(flavor=flavor(vcpus=99)))
    assert get_selected_hosts(answer) == ["cn1"]
    assert count_rows(database, "sched_decisions") == 0


def build_funnel(number=0, *, reason="full", query="resources=VCPU:1", detail="a"):
    rejected = tuple(Rejected(f"cn{number}", "node", reason) for number in range(number))
    return Funnel(
        request_filters=(
            RequestFilterReport(name="f", applied=True, elapsed_ms=1.0, changes={"a": detail}),
        ),
        allocation_candidates=CandidatesReport(query=query, hosts=number),
        filters=(FilterReport(name="F", before=number, after=0, rejected=rejected),),
    )


@pytest.mark.parametrize(
    ("funnel", "expected"),
    [
        (build_funnel(3), 3),
        (build_funnel(500), 100),
        (build_funnel(500, reason="x" * 2_000), 20),
        (build_funnel(500, reason="x" * 10_000), 3),
    ],
    ids=["all", "a hundred", "twenty", "three"],
)
def test_larger_funnels_are_recorded_with_fewer_rejected_hosts(funnel, expected):
    (stored,) = limit_size(funnel)["filters"]
    assert (len(stored["rejected"]), stored["before"]) == (expected, funnel.filters[0].before)


@pytest.mark.parametrize(
    "funnel",
    [
        build_funnel(500, reason="x" * MAX_FUNNEL_BYTES),
        build_funnel(2, detail="x" * MAX_FUNNEL_BYTES),
        build_funnel(2, query="x" * MAX_FUNNEL_BYTES),
    ],
    ids=["reasons", "changes", "query"],
)
def test_too_large_funnel_is_recorded_with_its_counts_only(funnel):
    stored = limit_size(funnel)
    assert stored["outline"]
    assert len(str(stored)) < MAX_FUNNEL_BYTES
    expected = {"name": "F", "before": funnel.filters[0].before, "after": 0}
    assert stored["filters"] == [expected]


def build_decision(moment, number=0):
    return Decision(
        uuid=instance(1000 + number),
        outcome="selected",
        project_id=None,
        digest="",
        request={},
        answer={},
        places=(PlacedInstance(instance(number), "cn1"),),
        created_at=moment,
    )


def record_decision(database, decision):
    database.write(lambda connection: decisions.record(connection, decision, decision.created_at))


def test_old_decisions_are_deleted_after_a_time_or_a_number_of_decisions(database):
    retention = Retention(database, keeping=60)
    assert retention.MAX_BATCH > retention.MAX_UNCLEANED
    old = NOW - timedelta(seconds=61)
    record_decision(database, build_decision(old))
    retention.count_decision(NOW)
    with record_statements(database) as statements:
        for _ in range(retention.MAX_UNCLEANED - 2):
            retention.count_decision(NOW)
    assert statements == []
    retention.count_decision(NOW)
    assert count_rows(database, "sched_decisions") == 0
    record_decision(database, build_decision(old))
    retention.count_decision(NOW + timedelta(seconds=59))
    assert count_rows(database, "sched_decisions") == 1
    retention.count_decision(NOW + timedelta(seconds=60))
    assert count_rows(database, "sched_decisions") == 0
    # The clock is set back.
    retention.count_decision(NOW + timedelta(days=365))
    record_decision(database, build_decision(old))
    retention.count_decision(NOW)
    assert count_rows(database, "sched_decisions") == 0


def test_retention_of_0_keeps_all_decisions(database):
    retention = Retention(database, keeping=0)
    record_decision(database, build_decision(NOW))
    for _ in range(2 * retention.MAX_UNCLEANED):
        retention.count_decision(NOW + timedelta(days=9999))
    assert count_rows(database, "sched_decisions") == 1


def test_process_deletes_decisions_of_all_processes(database):
    first, second = (Retention(database, keeping=60) for _ in range(2))
    # It deletes in several statements, which may take long on a busy machine.
    first.MAX_BATCH, first.MAX_CLEANUP_SECONDS = 1, 60
    for retention, remaining in ((first, 0), (second, 3)):
        for number in range(3):
            record_decision(database, build_decision(NOW - timedelta(seconds=61), number))
        retention.count_decision(NOW)
        retention.count_decision(NOW + timedelta(seconds=60))
        assert count_rows(database, "sched_decisions") == remaining


def test_expired_runs_of_plans_are_deleted_unless_they_are_running(database):
    def record_run(number, state, age):
        run = PlanRun(
            uuid=instance(number),
            kind="plan",
            state=state,
            method="live",
            parallel=1,
            executor=instance(9),
            moves=(RunMove(instance=instance(number), source="cn1", target="cn2"),),
        )
        moment = NOW - timedelta(seconds=age)
        database.write(lambda connection: plan_runs.record(connection, run, moment))

    for number, state in enumerate(("done", "failed", "stopped", "running")):
        record_run(number, state, 61)
    record_run(5, "done", 59)
    retention = Retention(database, keeping=60)
    retention.count_decision(NOW - timedelta(seconds=60))
    retention.count_decision(NOW)
    with database.read() as connection:
        remaining = {run.uuid for run in plan_runs.search(connection, {})}
    assert remaining == {instance(3), instance(5)}
    assert count_rows(database, "sched_plan_moves") == 2


def test_service_has_the_configured_retention(make_app, sqlite_url):
    app = make_app(make_settings(sqlite_url, scheduler__decision_retention=3600))
    assert app.app.services.scheduler.claims.retention._keeping == timedelta(hours=1)


def test_list_of_decisions_takes_a_constant_number_of_statements(cloud):
    counts = set()
    for number in (1, 2, 3):
        cloud.app.services.scheduler.select_destinations(spec(instance(number)))
        with record_statements(cloud.app.services.database) as statements:
            cloud.get(f"/scheduler/v1/decisions?host=cn1&instance={instance(1)}&outcome=selected")
        counts.add(len(statements))
    assert counts == {3}  # version, decisions, names of their instances
