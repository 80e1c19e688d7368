# SPDX-License-Identifier: Apache-2.0
"""Recorded runs that have stopped."""

from dataclasses import replace
from datetime import timedelta
from functools import partial

from placement_sched.db.transaction import Database
from placement_sched.extensions.what_if import store as plan_runs
from placement_sched.model.plan_run import PlanRun, RunMove
from tests.support.reports import NOW
from tests.support.scheduling import make_uuid

EXECUTOR_UUID = make_uuid(9)


def record_stopped_run(database: Database, number: int, age: float, **values: str) -> None:
    """Record a run that last changed ``age`` seconds ago."""
    run = replace(build_stopped_run(make_uuid(number)), **values)
    moment = NOW - timedelta(seconds=age)
    database.write(partial(plan_runs.record, run=run, now=moment))


def build_stopped_run(uuid: str) -> PlanRun:
    return PlanRun(
        uuid=uuid,
        kind="plan",
        state="stopped",
        method="live",
        parallel=1,
        executor=EXECUTOR_UUID,
        moves=(RunMove(instance=make_uuid(2), source="cn1", target="cn2"),),
    )
