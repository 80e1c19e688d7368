# SPDX-License-Identifier: Apache-2.0
"""Runs of plans, and their moves, which nova carries out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Self

from placement_sched.model.document import Json

#: The kinds of plans: for simulated changes of the cloud, to rebalance hosts, to drain hosts, and
#: to evacuate hosts that are down.
PLAN, REBALANCE, DRAIN, EVACUATION = "plan", "rebalance", "drain", "evacuation"
KINDS = (PLAN, REBALANCE, DRAIN, EVACUATION)

#: Methods of moving an instance: a live migration, a cold migration that is confirmed, or, for all
#: moves of an evacuation and no others, an evacuation.
LIVE, COLD, EVACUATE = "live", "cold", "evacuate"
METHODS = (LIVE, COLD, EVACUATE)

PLANNED, STARTED, DONE, FAILED, SKIPPED = "planned", "started", "done", "failed", "skipped"
MOVE_STATES = (PLANNED, STARTED, DONE, FAILED, SKIPPED)
#: The states that a move never leaves.
FINAL_STATES = (DONE, SKIPPED)

#: Further states of a run: a process executes it, or its execution was interrupted.
RUNNING, STOPPED = "running", "stopped"
RUN_STATES = (RUNNING, DONE, FAILED, STOPPED)

#: JSON keys of a move that differ from the names of the attributes.
_KEYS = {"source": "from", "target": "to"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMove:
    """The move of an instance within the run of a plan.

    ``decision`` is the last check of the move. ``error`` is a sentence. Times are naive UTC.
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
        """Read a recorded move from its JSON object."""
        values = {each.name: document[_KEYS.get(each.name, each.name)] for each in fields(cls)}
        for name in ("started_at", "finished_at"):
            if values[name] is not None:
                values[name] = datetime.fromisoformat(values[name])
        return cls(**values)

    @property
    def was_started(self) -> bool:
        """Return whether an executor has ever started the move."""
        return self.state == STARTED or self.started_at is not None

    def as_json(self) -> Json:
        """Return the move as a JSON object."""
        return {_KEYS.get(each.name, each.name): getattr(self, each.name) for each in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRunSummary:
    """The fields of a run that lists show, with move counts by state."""

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
        body = {each.name: getattr(self, each.name) for each in fields(PlanRunSummary)}
        return {**body, "counts": {state: self.counts.get(state, 0) for state in MOVE_STATES}}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRun(PlanRunSummary):
    """The run of a plan, with the moves in the order of the plan.

    ``executor`` is the process that moves. ``stuck`` are instances that could not be moved.
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
