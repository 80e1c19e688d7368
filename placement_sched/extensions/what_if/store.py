# SPDX-License-Identifier: Apache-2.0
"""Records of plan runs, which move instances in nova, and violations."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy import Connection, delete, func, insert, select, update

from placement_sched.db import sql
from placement_sched.db.collations import Characters
from placement_sched.db.tables import failover_results, plan_moves, plan_runs
from placement_sched.errors import Conflict, NotFound
from placement_sched.model.document import Json, to_storable
from placement_sched.model.plan_run import (
    DONE,
    FINAL_STATES,
    PLANNED,
    RUNNING,
    STARTED,
    PlanRun,
    PlanRunSummary,
    RunMove,
)

_RUNS, _MOVES = plan_runs.c, plan_moves.c
#: Maximum number of runs, which may have many moves, that are deleted in a transaction.
_MAX_PURGED = 10
#: The row of the table of background results with the violations.
_VIOLATIONS_ID = 2
#: Attributes of a summary that have columns of the same name.
_LISTED = tuple(each.name for each in fields(PlanRunSummary) if each.name != "counts")
_SUMMARY = tuple(_RUNS[name] for name in _LISTED)
#: The column of each attribute of a move.
_OTHER_NAMES = {"instance": "instance_uuid", "decision": "decision_uuid"}
_OF_MOVE = {each.name: _OTHER_NAMES.get(each.name, each.name) for each in fields(RunMove)}


def record(connection: Connection, run: PlanRun, now: datetime) -> None:
    """Record a new run and its moves."""
    values = _build_listed(run) | {"created_at": now, "updated_at": now}
    values |= {"executor": run.executor, "request": to_storable(run.request)}
    values["stuck"] = to_storable(list(run.stuck))
    connection.execute(insert(plan_runs).values(**values))
    rows = [
        {
            "run_uuid": run.uuid,
            "position": position,
            **{column: getattr(move, name) for name, column in _OF_MOVE.items()},
        }
        for position, move in enumerate(run.moves)
    ]
    sql.insert_rows(connection, plan_moves, rows)


def get_by_uuid(connection: Connection, uuid: str) -> PlanRun:
    """Return a run with its moves, or raise :class:`NotFound`."""
    row = connection.execute(select(plan_runs).where(_RUNS.uuid == uuid)).first()
    if row is None:
        raise NotFound(f"No run with uuid {uuid} found", code="scheduler.not_found")
    query = select(plan_moves).where(_MOVES.run_uuid == uuid).order_by(_MOVES.position)
    moves = tuple(
        RunMove(**{name: getattr(move, column) for name, column in _OF_MOVE.items()})
        for move in connection.execute(query)
    )
    return PlanRun(
        **_build_listed(row),
        counts=Counter(move.state for move in moves),
        executor=row.executor,
        request=orjson.loads(row.request),
        stuck=orjson.loads(row.stuck),
        moves=moves,
    )


def search(
    connection: Connection,
    filters: Mapping[str, str],
    *,
    marker: str | None = None,
    limit: int | None = None,
) -> list[PlanRunSummary]:
    """Return runs, newest first.

    ``filters`` maps names of columns to values. ``marker`` is the uuid of the last run of the
    previous page.
    """
    query = select(*_SUMMARY).where(*(_RUNS[name] == value for name, value in filters.items()))
    marker_id = select(_RUNS.id).where(_RUNS.uuid == marker).scalar_subquery()
    after = None if marker is None else marker_id
    query = sql.select_page_after(query, _RUNS.id, after, limit=limit, is_descending=True)
    rows = connection.execute(query).all()
    counts = _count_states(connection, [row.uuid for row in rows])
    return [PlanRunSummary(**_build_listed(row), counts=counts[row.uuid]) for row in rows]


def change_run(connection: Connection, uuid: str, state: str, executor: str, now: datetime) -> None:
    """Change the state of a run.

    The state ``running`` makes ``executor`` the executor of the run. Only the executor can set
    other states. Raises :class:`NotFound` if the run does not exist. Raises :class:`Conflict` if
    the run is already done, if it has another executor, or if the state ``done`` is set while moves
    are planned or started.
    """
    condition = (_RUNS.uuid == uuid) & (_RUNS.state != DONE)
    if state != RUNNING:
        condition &= _RUNS.executor == executor
    values = {"state": state, "executor": executor, "updated_at": now}
    if not connection.execute(update(plan_runs).where(condition).values(**values)).rowcount:
        run = get_by_uuid(connection, uuid)
        if run.state == DONE:
            raise Conflict(f"Run {uuid} is already done")
        raise build_executor_conflict(uuid)
    if state == DONE:
        # The row is locked now, and no move changes before the end of the transaction.
        counts = _count_states(connection, [uuid])[uuid]
        if number := counts[PLANNED] + counts[STARTED]:
            moves = "1 move is" if number == 1 else f"{number} moves are"
            raise Conflict(f"Run {uuid} cannot change to done: {moves} planned or started")


def lock_run(
    connection: Connection, uuid: str, executor: str, now: datetime, *, is_start: bool = False
) -> None:
    """Lock a run for its executor until the end of the transaction.

    Raises :class:`Conflict` if another process has become the executor. If a move is to start
    (``is_start``), also raises it if the run is not running.
    """
    condition = (_RUNS.uuid == uuid) & (_RUNS.executor == executor)
    if is_start:
        condition &= _RUNS.state == RUNNING
    if not connection.execute(update(plan_runs).where(condition).values(updated_at=now)).rowcount:
        run = get_by_uuid(connection, uuid)
        raise (
            build_executor_conflict(uuid)
            if run.executor != executor
            else build_not_running_conflict(run)
        )


def change_move(
    connection: Connection, uuid: str, instance: str, values: Mapping[str, Any]
) -> None:
    """Change columns of a move.

    Raises :class:`Conflict` if the state of the move is final.
    """
    if (error := values.get("error")) is not None:
        values = {**values, "error": Characters.read_from(connection).replace_unstorable(error)}
    is_open = _MOVES.state.not_in(FINAL_STATES)
    condition = (_MOVES.run_uuid == uuid) & (_MOVES.instance_uuid == instance) & is_open
    if not connection.execute(update(plan_moves).where(condition).values(**values)).rowcount:
        raise build_closed_move_conflict(instance)


def purge(connection: Connection, before: datetime, limit: int = _MAX_PURGED) -> None:
    """Delete the oldest runs that do not run and last changed before a time.

    Hook ``old_rows``.
    """
    is_expired = (_RUNS.state != RUNNING) & (_RUNS.updated_at < before)
    query = select(_RUNS.uuid).where(is_expired).order_by(_RUNS.updated_at).limit(limit)
    uuids = connection.scalars(query.with_for_update()).all()  # no run is resumed now
    sql.change_in_batches(connection, delete(plan_moves), _MOVES.run_uuid, uuids)
    sql.change_in_batches(connection, delete(plan_runs), _RUNS.uuid, uuids)


def replace_violations(connection: Connection, report: Json) -> None:
    """Replace the last report of violations."""
    connection.execute(delete(failover_results).where(failover_results.c.id == _VIOLATIONS_ID))
    moment = datetime.fromisoformat(report["computed_at"])
    values = {"id": _VIOLATIONS_ID, "result": to_storable(report), "computed_at": moment}
    connection.execute(insert(failover_results).values(**values))


def read_violations(connection: Connection) -> Json | None:
    """Return the last report of violations, or None before the first."""
    query = select(failover_results.c.result).where(failover_results.c.id == _VIOLATIONS_ID)
    text = connection.scalar(query)
    return None if text is None else orjson.loads(text)


def build_executor_conflict(uuid: str) -> Conflict:
    """Build the error for a process that is not the executor of a run."""
    return Conflict(
        f"Run {uuid} has another executor, which resumed it: see its state before you resume it "
        "again"
    )


def build_not_running_conflict(run: PlanRun) -> Conflict:
    """Build the error for the start of a move in a run that is not running."""
    return Conflict(
        f"Run {run.uuid} is {run.state}. Moves start only in the state running: set the state first"
    )


def build_closed_move_conflict(instance: str) -> Conflict:
    """Build the error for a change of a move whose state is final."""
    return Conflict(f"The move of instance {instance} is already done or skipped")


def _count_states(connection: Connection, uuids: Collection[str]) -> dict[str, Counter[str]]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    query = select(_MOVES.run_uuid, _MOVES.state, func.count().label("number"))
    query = query.group_by(_MOVES.run_uuid, _MOVES.state)
    for row in sql.select_in_batches(connection, query, _MOVES.run_uuid, uuids):
        counts[row.run_uuid][row.state] = row.number
    return counts


def _build_listed(row: object) -> dict[str, Any]:
    return {name: getattr(row, name) for name in _LISTED}
