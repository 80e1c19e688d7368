# SPDX-License-Identifier: Apache-2.0
"""Journal of plan runs, and execution of their moves by nova's API.

The executor is a client of this service. Before it starts a move, it sends a request that checks
the move here and records the start. A single thread starts moves in the order of the plan, a few
at a time, and polls nova for their results. A failed move does not stop the others, unless this is
requested. A later execution of the same run finds the results of moves that nova has finished since
then.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from placement_sched.db.transaction import Connection
from placement_sched.errors import Error, Invalid, NotFound, ServiceFailed, shorten
from placement_sched.extensions.what_if import store as plan_runs
from placement_sched.extensions.what_if.drain_plan import check_move
from placement_sched.extensions.what_if.evacuation import check_hosts_are_down
from placement_sched.extensions.what_if.nova_api import Nova, NovaServer
from placement_sched.limits import MAX_MESSAGE_CHARACTERS
from placement_sched.model.context import NO_REQUEST, RequestIds
from placement_sched.model.document import Json
from placement_sched.model.instance import (
    COLD_STATES,
    LIVE_STATES,
    find_evacuation_obstacle,
    find_move_obstacle,
)
from placement_sched.model.names import suggest_name
from placement_sched.model.plan_run import (
    COLD,
    DONE,
    EVACUATE,
    EVACUATION,
    FAILED,
    FINAL_STATES,
    LIVE,
    RUNNING,
    SKIPPED,
    STARTED,
    STOPPED,
    PlanRun,
    RunMove,
)
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.schemas.formats import normalize_uuid
from placement_sched.store import decisions


def create_run(scheduler: Scheduler, body: Json, user_id: str | None = None) -> PlanRun:
    """Record a run with the moves of a plan, all planned, and return it.

    Raises :class:`Invalid`, with the JSON path, for a repeated instance and for a move to the
    source host. An evacuation needs hosts that are down, or :class:`Conflict` is raised, and the
    operator's word ``fenced`` in the request: no instance of these hosts can run or write any more.
    """
    if (body["kind"] == EVACUATION) is not (body["method"] == EVACUATE):
        raise Invalid(
            f"the method of a run of kind {body['kind']} cannot be {body['method']}",
            json_path="$.method",
        )
    if body["kind"] == EVACUATION:
        if (body.get("request") or {}).get("fenced") is not True:
            raise Invalid(
                "fenced must be true: switch the host off first, or cut it off from storage and "
                "networks, since a disk with two writers is lost",
                json_path="$.request.fenced",
            )
        check_hosts_are_down(scheduler, {move["from"] for move in body["moves"]}, "$.moves")
    run = PlanRun(
        uuid=str(UUID(int=scheduler.random.getrandbits(128), version=4)),
        kind=body["kind"],
        state=RUNNING,
        method=body["method"],
        parallel=body["parallel"],
        user_id=user_id,
        executor=normalize_uuid(body["executor"]),
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
        return plan_runs.get_by_uuid(connection, normalize_uuid(uuid))


def change_run(scheduler: Scheduler, uuid: str, body: Json) -> PlanRun:
    """Change the state of a run and return it.

    The state ``running`` makes the sender the executor of the run, in place of the previous
    executor. Raises :class:`Conflict` if the run is done, if the sender of another state is not the
    executor, and for the state ``done`` if moves are planned or started.
    """
    uuid, executor, state = normalize_uuid(uuid), normalize_uuid(body["executor"]), body["state"]
    now = scheduler.clock()
    scheduler.database.write(
        lambda connection: plan_runs.change_run(connection, uuid, state, executor, now)
    )
    return show_run(scheduler, uuid)


def change_move(
    scheduler: Scheduler, uuid: str, instance: str, body: Json, ids: RequestIds = NO_REQUEST
) -> Json:
    """Change the state of a move, and return the move with its ``rejection``.

    A move starts only if its instance is recorded on the source host, and if the target host passes
    all filters now. Otherwise the state does not change, and ``rejection`` has the reason, with
    ``kind`` and the values of the first stage that rejects the target. This check is recorded as a
    decision of kind ``move``. Raises :class:`Conflict` if the caller is not the executor of the
    run, if a move starts in a run that is not running, or if the move is already done or skipped.
    """
    uuid, instance = normalize_uuid(uuid), normalize_uuid(instance)
    executor, state = normalize_uuid(body["executor"]), body["state"]
    run = show_run(scheduler, uuid)
    move = _find_move(run, instance, executor)
    if state == STARTED and run.state != RUNNING:
        raise plan_runs.build_not_running_conflict(run)
    decision = rejection = None
    if state == STARTED:
        decision, rejection = check_move(scheduler, instance, move.source, move.target, ids)
    now = scheduler.clock()
    values: dict[str, Any] = {} if rejection else _build_values(state, body.get("error"), now)
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
        run = plan_runs.get_by_uuid(connection, uuid)
    move_keys = _find_move(run, instance).as_json()
    if rejection is None:
        return {**move_keys, "rejection": None}
    return {**rejection.values, **move_keys, "rejection": rejection.reason}


def _build_values(state: str, error: str | None, now: datetime) -> dict[str, Any]:
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
        raise plan_runs.build_executor_conflict(run.uuid)
    if executor is not None and move.state in FINAL_STATES:
        raise plan_runs.build_closed_move_conflict(instance)
    return move


def _read_moves(documents: Sequence[Json]) -> list[RunMove]:
    moves: dict[str, RunMove] = {}
    for position, document in enumerate(documents):
        path = f"$.moves[{position}]"
        instance, source, target = (document[key] for key in ("instance", "from", "to"))
        instance = normalize_uuid(instance)
        if instance in moves:
            raise Invalid(f"instance {instance} has two moves", json_path=f"{path}.instance")
        if source == target:
            raise Invalid(f"source and target are the same host: {target}", json_path=f"{path}.to")
        moves[instance] = RunMove(instance=instance, source=source, target=target)
    return list(moves.values())


#: Seconds between two polls of the moving instances.
POLL_SECONDS = 2.0
#: Maximum number of successive polls of an instance that nova does not answer.
MAX_POLL_FAILURES = 30

#: nova's statuses of an instance that moves, and of a cold migration to confirm.
_MOVING = ("MIGRATING", "RESIZE")
_TO_CONFIRM = "VERIFY_RESIZE"
_ERROR = "ERROR"
#: nova's statuses of a migration whose confirmation has begun or ended.
_CONFIRMING = ("confirming", "confirmed")
#: nova's type of migrations that are evacuations, and their statuses until the instance arrives.
_EVACUATION_TYPE, _EVACUATING = "evacuation", ("accepted", "pre-migrating")


#: Callback that changes the run in the journal, or the move of an instance if its uuid is passed,
#: and returns the changed object.
Change = Callable[[Json, str | None], Json]


@dataclass(slots=True)
class _ActiveMove:
    """A move that nova is carrying out.

    ``is_own`` is true if this execution started it. ``problem`` is the error of a request whose
    result is unknown.
    """

    move: RunMove
    deadline: float
    is_own: bool = True
    is_confirmed: bool = False
    poll_failures: int = 0
    problem: str | None = None


@dataclass(slots=True, kw_only=True)
class PlanExecution:
    """An execution of a run, with at most ``parallel`` moves at a time.

    ``change`` calls :func:`change_run` or :func:`change_move`. ``method`` is the way to move
    active instances. Unless it is an evacuation, stopped instances move cold, and paused instances
    live. ``timeout`` is the maximum number of seconds of a move. With ``stops_on_failure``, no
    further move starts after a failure. When the state of a move changes, ``report`` is called with
    the move, its new state, and a sentence if it has failed, was skipped, or is of a locked
    instance.
    """

    change: Change
    nova: Nova
    method: str = LIVE
    parallel: int = 1
    timeout: float = 3600.0
    stops_on_failure: bool = False
    report: Callable[[RunMove, str, str | None], None] = lambda *_: None
    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic
    _waiting: deque[RunMove] = field(default_factory=deque)
    _active_moves: dict[str, _ActiveMove] = field(default_factory=dict)
    _has_failed: bool = False
    #: Whether the next move was rejected and waits for the end of another move.
    _is_blocked: bool = False

    def run(self, moves: Sequence[RunMove]) -> str:
        """Carry out the open moves, and return the new state of the run.

        At Ctrl-C no further move starts. nova finishes the moves that it has begun, and the journal
        keeps them as started.
        """
        state = STOPPED
        try:
            self._sort_open_moves([move for move in moves if move.state not in FINAL_STATES])
            while self._active_moves or (self._waiting and not self._must_stop):
                self._start_moves()
                if self._active_moves:
                    self.sleep(POLL_SECONDS)
                    for active_move in list(self._active_moves.values()):
                        self._poll(active_move)
            state = FAILED if self._has_failed else DONE
        except KeyboardInterrupt:
            pass
        except Error:
            with suppress(Error):
                self.change({"state": STOPPED}, None)
            raise
        self.change({"state": state}, None)
        return state

    @property
    def _must_stop(self) -> bool:
        return self._has_failed and self.stops_on_failure

    def _sort_open_moves(self, moves: Sequence[RunMove]) -> None:
        """Sort open moves into waiting moves and moves that nova carries out.

        A move that nova has finished since the last execution is recorded as done. If a move was
        never started, a migration of its instance is not from this run, and the move waits.
        """
        for move in moves:
            if move.was_started:
                server, is_busy = self._read_server(move.instance)
                if server is not None and is_busy:
                    self._add_active_move(move, is_own=False)
                    continue
                if server and server.host == move.target and server.status != _ERROR:
                    self._end_move(move, DONE)
                    continue
            self._waiting.append(move)

    def _start_moves(self) -> None:
        """Start moves in order while fewer than ``parallel`` are carried out.

        A rejected move may need capacity that an unfinished move will free. It is checked again
        when a move ends.
        """
        while self._waiting and not self._must_stop and not self._is_blocked:
            if len(self._active_moves) >= self.parallel:
                return
            if self._start(self._waiting[0]):
                self._waiting.popleft()
            else:
                self._is_blocked = True

    def _start(self, move: RunMove) -> bool:
        """Start, skip or fail a move, or return False if it has to wait."""
        server, is_busy = self._read_server(move.instance)
        if server is None:
            self._end_move(move, SKIPPED, "nova has no such instance any more")
        elif server.host != move.source:
            host = server.host or "no host"
            self._end_move(move, SKIPPED, f"it is on {host} now, not on {move.source}")
        elif server.status == _ERROR and self.method != EVACUATE:
            self._end_move(move, SKIPPED, f"nova cannot move it: {_describe_error(server)}")
        elif obstacle := self._find_obstacle(server, is_busy=is_busy):
            self._end_move(move, FAILED, obstacle)
        elif rejection := self.change({"state": STARTED}, move.instance)["rejection"]:
            if self._active_moves:
                return False
            self._end_move(move, FAILED, f"{move.target} rejects it now: {rejection}")
        else:
            note = "it is locked, which binds only other users" if server.is_locked else None
            self.report(move, STARTED, note)
            self._request_migration(move, server)
        return True

    def _read_server(self, uuid: str) -> tuple[NovaServer | None, bool]:
        """Return an instance of nova, and whether nova is moving it.

        The status of an evacuation is read first, since it ends after the instance has arrived.
        The task is no measure of it: a task may be older, and ends before the arrival.
        """
        if self.method == EVACUATE:
            status = self.nova.find_migration_status(uuid, _EVACUATION_TYPE)
            return self.nova.find_server(uuid), status in _EVACUATING
        server = self.nova.find_server(uuid)
        return server, server is not None and _is_busy(server)

    def _find_obstacle(self, server: NovaServer, *, is_busy: bool) -> str | None:
        if self.method != EVACUATE:
            return find_move_obstacle(server.vm_state, server.task_state)
        if is_busy:
            return "nova already evacuates it: wait until this ends"
        return find_evacuation_obstacle(server.vm_state)

    def _request_migration(self, move: RunMove, server: NovaServer) -> None:
        state = server.vm_state
        is_cold = state in COLD_STATES if self.method == COLD else state not in LIVE_STATES
        migrate = self.nova.cold_migrate if is_cold else self.nova.live_migrate
        if self.method == EVACUATE:
            migrate = self.nova.evacuate
        active_move = self._add_active_move(move)
        try:
            rejection = migrate(move.instance, move.target)
        except ServiceFailed as failure:
            # nova may have begun the migration. The next poll shows whether it has.
            active_move.problem = failure.detail
            return
        if rejection:
            self._end_move(move, FAILED, rejection)

    def _add_active_move(self, move: RunMove, *, is_own: bool = True) -> _ActiveMove:
        active_move = _ActiveMove(move, self.monotonic() + self.timeout, is_own=is_own)
        self._active_moves[move.instance] = active_move
        return active_move

    def _poll(self, active_move: _ActiveMove) -> None:
        """Read the instance of a move from nova, and end the move if possible."""
        try:
            server, is_busy = self._read_server(active_move.move.instance)
        except ServiceFailed:
            active_move.poll_failures += 1
            if active_move.poll_failures >= MAX_POLL_FAILURES:
                raise
            return
        active_move.poll_failures = 0
        self._follow(active_move, server, is_busy=is_busy)

    def _follow(
        self, active_move: _ActiveMove, server: NovaServer | None, *, is_busy: bool
    ) -> None:
        move = active_move.move
        # nova also evacuates an instance in ERROR.
        is_evacuating = is_busy and self.method == EVACUATE
        if server is None:
            self._end_move(move, SKIPPED, "it was deleted during its move")
        elif server.status == _ERROR and not is_evacuating:
            self._end_move(move, FAILED, _describe_error(server))
        elif (
            server.status == _TO_CONFIRM
            and server.task_state is None
            and not active_move.is_confirmed
        ):
            self._confirm(active_move, server)
        elif is_busy:
            if self.monotonic() >= active_move.deadline:
                self._end_move(move, FAILED, f"nova has not finished it after {self.timeout:g} s")
        elif server.host == move.target:
            self._end_move(move, DONE)
        elif not active_move.is_own:
            # The migration of an earlier execution has failed: the move is checked again.
            del self._active_moves[move.instance]
            self._waiting.appendleft(move)
            self._is_blocked = False
        else:
            self._end_move(move, FAILED, self._explain_failure(active_move, server))

    def _confirm(self, active_move: _ActiveMove, server: NovaServer) -> None:
        move = active_move.move
        if server.host != move.target:
            self._end_move(
                move, FAILED, f"it is on {server.host}, not on {move.target}: not confirmed"
            )
            return
        active_move.is_confirmed = True
        rejection = self.nova.confirm(move.instance)
        if rejection and self.nova.find_migration_status(move.instance) not in _CONFIRMING:
            self._end_move(move, FAILED, rejection)

    def _explain_failure(self, active_move: _ActiveMove, server: NovaServer) -> str:
        if server.host != active_move.move.source:
            return f"it is on {server.host} now, not on {active_move.move.target}"
        if active_move.problem:
            return active_move.problem
        status = self.nova.find_migration_status(server.uuid)
        status_note = "" if status is None else f": the status of nova's migration is {status}"
        return f"it is still on {server.host}{status_note}"

    def _end_move(self, move: RunMove, state: str, error: str | None = None) -> None:
        self._active_moves.pop(move.instance, None)
        self._is_blocked = False
        self._has_failed = self._has_failed or state == FAILED
        text = None if error is None else shorten(error, MAX_MESSAGE_CHARACTERS)
        self.change({"state": state, "error": text}, move.instance)
        self.report(move, state, error)


def _is_busy(server: NovaServer) -> bool:
    return server.task_state is not None or server.status in (*_MOVING, _TO_CONFIRM)


def _describe_error(server: NovaServer) -> str:
    return f"its status is {server.status}" + (f": {server.fault}" if server.fault else "")
