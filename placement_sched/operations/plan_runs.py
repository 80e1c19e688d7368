# SPDX-License-Identifier: Apache-2.0
"""Journal of plan runs: new runs, checked starts of moves, and their results.

The executor is a client, which moves the instances by nova's API. It starts a move only after the
check here, in the same request as the record of the start.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from placement_sched.db.transaction import Connection
from placement_sched.errors import Invalid, NotFound
from placement_sched.model.document import Json
from placement_sched.model.journal.plan_run import FINAL_STATES, RUNNING, STARTED, PlanRun, RunMove
from placement_sched.model.names import suggest_name
from placement_sched.model.request_ids import NO_REQUEST, RequestIds
from placement_sched.scheduler.drain_plan import check_move
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.schemas.formats import usual_uuid
from placement_sched.store import decisions, plan_runs


def create_run(scheduler: Scheduler, body: Json, user_id: str | None = None) -> PlanRun:
    """Record a run with the moves of a plan, all still planned, and return the run.

    Raises :class:`Invalid` with the JSON path of a repeated instance, and of a move to its source.
    """
    run = PlanRun(
        uuid=str(UUID(int=scheduler.random.getrandbits(128), version=4)),
        kind=body["kind"],
        state=RUNNING,
        method=body["method"],
        parallel=body["parallel"],
        user_id=user_id,
        executor=usual_uuid(body["executor"]),
        request=body.get("request") or {},
        stuck=body.get("stuck") or (),
        moves=tuple(_read_moves(body["moves"])),
    )
    now = scheduler.clock()
    scheduler.database.write(lambda connection: plan_runs.record(connection, run, now))
    return show_run(scheduler, run.uuid)


def show_run(scheduler: Scheduler, uuid: str) -> PlanRun:
    """Return a run with its moves.

    Raises :class:`NotFound` if it does not exist.
    """
    with scheduler.database.read() as connection:
        return plan_runs.by_uuid(connection, usual_uuid(uuid))


def change_run(scheduler: Scheduler, uuid: str, body: Json) -> PlanRun:
    """Change the state of a run and return it.

    The state ``running`` makes the sender its executor, which ends the right of the executor before
    it. Raises :class:`Conflict` if the run is done, if the sender is not its executor, and for the
    state ``done`` if moves are planned or started.
    """
    uuid, executor, state = usual_uuid(uuid), usual_uuid(body["executor"]), body["state"]
    now = scheduler.clock()
    scheduler.database.write(
        lambda connection: plan_runs.change_run(connection, uuid, state, executor, now)
    )
    return show_run(scheduler, uuid)


def change_move(
    scheduler: Scheduler, uuid: str, instance: str, body: Json, ids: RequestIds = NO_REQUEST
) -> Json:
    """Change the state of a move, and return the move with its ``rejection``.

    A move is only started if its instance is recorded on its source, and if the target passes now.
    Otherwise the state stays, and ``rejection`` is the reason. This check is recorded as a decision
    of kind ``move``. Raises :class:`Conflict` if the sender is not the executor of the run, if a
    move starts in a run that is not running, or if the move is already done or skipped.
    """
    uuid, instance = usual_uuid(uuid), usual_uuid(instance)
    executor, state = usual_uuid(body["executor"]), body["state"]
    run = show_run(scheduler, uuid)
    move = _find_move(run, instance, executor)
    if state == STARTED and run.state != RUNNING:
        raise plan_runs.not_running(run)
    decision = rejection = None
    if state == STARTED:
        decision, rejection = check_move(scheduler, instance, move.source, move.target, ids)
    now = scheduler.clock()
    values: dict[str, Any] = {} if rejection else _values_of(state, body.get("error"), now)
    if decision is not None:
        values["decision_uuid"] = decision.uuid

    def write(connection: Connection) -> None:
        plan_runs.lock_run(connection, uuid, executor, now, is_start=state == STARTED)
        if values:
            plan_runs.change_move(connection, uuid, instance, values)
        if decision is not None:
            decisions.record(connection, decision, now)

    scheduler.database.write(write)
    with scheduler.database.read() as connection:
        run = plan_runs.by_uuid(connection, uuid)
    return {**_find_move(run, instance).as_json(), "rejection": rejection}


def _values_of(state: str, error: str | None, now: datetime) -> dict[str, Any]:
    if state == STARTED:
        return {"state": state, "started_at": now, "finished_at": None, "error": None}
    return {"state": state, "finished_at": now, "error": error}


def _find_move(run: PlanRun, instance: str, executor: str | None = None) -> RunMove:
    """Return the move of an instance in a run.

    With ``executor`` the move must be open, and the run must have this executor.
    """
    move = next((move for move in run.moves if move.instance == instance), None)
    if move is None:
        names = [move.instance for move in run.moves]
        suggestion = suggest_name("instance", instance, names)
        raise NotFound(
            f"Run {run.uuid} has no move of instance {instance}{suggestion}",
            code="scheduler.not_found",
        )
    if executor is not None and executor != run.executor:
        raise plan_runs.other_executor(run.uuid)
    if executor is not None and move.state in FINAL_STATES:
        raise plan_runs.closed_move(instance)
    return move


def _read_moves(documents: Sequence[Json]) -> list[RunMove]:
    moves: dict[str, RunMove] = {}
    for position, document in enumerate(documents):
        path = f"$.moves[{position}]"
        instance, source, target = (document[key] for key in ("instance", "from", "to"))
        instance = usual_uuid(instance)
        if instance in moves:
            raise Invalid(f"instance {instance} has two moves", json_path=f"{path}.instance")
        if source == target:
            raise Invalid(f"source and target are the same host: {target}", json_path=f"{path}.to")
        moves[instance] = RunMove(instance=instance, source=source, target=target)
    return list(moves.values())
