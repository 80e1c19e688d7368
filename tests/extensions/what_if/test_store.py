# SPDX-License-Identifier: Apache-2.0
"""The store of plan runs."""

from datetime import timedelta
from functools import partial
from uuid import uuid4

import pytest
from sqlalchemy import func, select

from placement_sched.db import tables
from placement_sched.db.transaction import Database
from placement_sched.errors import NotFound
from placement_sched.extensions.what_if import store as plan_runs
from placement_sched.model.plan_run import PLANNED, RUNNING
from placement_sched.operations.periodic import OldRowDeletion
from tests.extensions.what_if.stopped_runs import (
    EXECUTOR_UUID,
    build_stopped_run,
    record_stopped_run,
)
from tests.support.concurrency import run_before_each_statement
from tests.support.reports import NOW
from tests.support.scheduling import make_uuid
from tests.support.statements import run_query


@pytest.mark.parametrize("database_url", ["postgresql", "mysql"], indirect=True)
def test_plan_run_that_is_resumed_while_old_runs_are_deleted_stays(database, settings):
    uuids, resumed = [], []

    def resume_run():
        try:
            concurrent_writer.write(
                lambda connection: plan_runs.change_run(
                    connection, uuids[-1], RUNNING, EXECUTOR_UUID, NOW
                )
            )
            resumed.append(uuids[-1])
        except NotFound:
            pass  # deleted before

    def delete_old_runs():
        run = build_stopped_run(str(uuid4()))
        uuids.append(run.uuid)
        created_at = NOW - timedelta(days=1)
        concurrent_writer.write(partial(plan_runs.record, run=run, now=created_at))
        database.write(partial(plan_runs.purge, before=NOW, limit=10))

    with Database(settings) as concurrent_writer:
        for _ in run_before_each_statement(database, delete_old_runs, resume_run):
            remaining = {run.uuid: run.counts for run in run_query(database, plan_runs.search, {})}
            assert remaining == {uuid: {PLANNED: 1} for uuid in resumed}
    assert 0 < len(resumed) < len(uuids)


def test_expired_runs_are_deleted_with_old_rows_unless_they_are_running(database, settings):
    runs = [(1, "done", 61), (2, "failed", 61), (3, "stopped", 61), (4, "running", 61)]
    for number, state, age in [*runs, (5, "done", 59)]:
        record_stopped_run(database, number, age, state=state)
    settings = settings.with_overrides({"scheduler.decision_retention": 60})
    OldRowDeletion(database, settings, lambda: NOW).run_round()
    remaining = run_query(database, plan_runs.search, {})
    assert {run.uuid for run in remaining} == {make_uuid(4), make_uuid(5)}
    with database.read() as connection:
        assert connection.scalar(select(func.count()).select_from(tables.plan_moves)) == 2
