# SPDX-License-Identifier: Apache-2.0
"""Runs of plans: moves of instances that nova carries out, and their states."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

from placement_sched.model.document import Json

#: Sources of the moves of a run.
PLAN, REBALANCE, DRAIN = "plan", "rebalance", "drain"
KINDS = (PLAN, REBALANCE, DRAIN)

#: Methods of moving an instance: a live migration, or a cold migration that is confirmed.
LIVE, COLD = "live", "cold"
METHODS = (LIVE, COLD)

#: States of a move.
PLANNED, STARTED, DONE, FAILED, SKIPPED = "planned", "started", "done", "failed", "skipped"
MOVE_STATES = (PLANNED, STARTED, DONE, FAILED, SKIPPED)
#: States of a move that does not change any more.
FINAL_STATES = (DONE, SKIPPED)

#: Further states of a run: it has an executor, or its executor was interrupted.
RUNNING, STOPPED = "running", "stopped"
RUN_STATES = (RUNNING, DONE, FAILED, STOPPED)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMove:
    """The move of an instance in a run.

    ``decision`` is the uuid of the decision of its last check. ``error`` is the sentence of a
    failed or skipped move. Times are naive UTC.
    """

    instance: str
    source: str
    target: str
    state: str = PLANNED
    decision: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    error: str | None = None

    @classmethod
    def from_json(cls, document: Json) -> Self:
        """Return the planned or recorded move of a JSON object."""
        started_at, finished_at = document.get("started_at"), document.get("finished_at")
        return cls(
            instance=document["instance"],
            source=document["from"],
            target=document["to"],
            state=document.get("state", PLANNED),
            decision=document.get("decision"),
            started_at=None if started_at is None else datetime.fromisoformat(started_at),
            finished_at=None if finished_at is None else datetime.fromisoformat(finished_at),
            error=document.get("error"),
        )

    @property
    def was_started(self) -> bool:
        """Return whether an executor has ever started the move."""
        return self.state == STARTED or self.started_at is not None

    def as_json(self) -> Json:
        """Return the move as a JSON object."""
        return {
            "instance": self.instance,
            "from": self.source,
            "to": self.target,
            "state": self.state,
            "decision": self.decision,
            "started_at": self.started_at,
            "finished_at": self.finished_at,
            "error": self.error,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRunSummary:
    """A run as listed, with the number of its moves by state."""

    uuid: str
    kind: str
    state: str
    method: str
    parallel: int
    user_id: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    counts: Mapping[str, int] = field(default_factory=dict)

    def as_json(self) -> Json:
        """Return the summary as a JSON object."""
        names = ("uuid", "kind", "state", "method", "parallel", "user_id")
        body: Json = {name: getattr(self, name) for name in names}
        body |= {"created_at": self.created_at, "updated_at": self.updated_at}
        return {**body, "counts": {state: self.counts.get(state, 0) for state in MOVE_STATES}}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRun(PlanRunSummary):
    """A run with its moves, in the order of the plan.

    ``executor`` identifies the process that carries out the moves. ``request`` is the body of the
    request for the plan. ``stuck`` are the instances that the plan could not move.
    """

    executor: str
    request: Mapping[str, Any] = field(default_factory=dict)
    stuck: Sequence[Json] = ()
    moves: tuple[RunMove, ...] = ()

    def as_json(self) -> Json:
        """Return the run as a JSON object, without its executor."""
        # dataclass(slots=True) makes a new class, which a plain super() would not find.
        body = PlanRunSummary.as_json(self)
        return {
            **body,
            "request": self.request,
            "stuck": list(self.stuck),
            "moves": [move.as_json() for move in self.moves],
        }
