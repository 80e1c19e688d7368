# SPDX-License-Identifier: Apache-2.0
"""Routes of plans and of advice on moves: ``POST /plan`` and ``POST /rebalance``.

Both simulate changes in a transaction that is rolled back. The request of a rebalance may name
a scheduling policy, as in ``select_destinations``.
"""

from collections.abc import Sequence

from placement_sched.api.blueprint import Blueprint
from placement_sched.api.call import ApiCall, ApiResponse
from placement_sched.api.scheduler import answers, request_schema
from placement_sched.db.transaction import Connection
from placement_sched.model.aggregates import POLICY_KEY
from placement_sched.model.document import Json
from placement_sched.store.compute import instances

blueprint = Blueprint("plan", __name__, errors=(404, 500))


@blueprint.post("/v1/plan", policy="scheduler:plan", body=request_schema.PLAN, answer=answers.PLAN)
def plan(call: ApiCall) -> ApiResponse:
    """Return the moves that changes of the cloud require, without applying them.

    As for explanations, the API policy rule is for operators: a plan shows hosts and instances
    of every project.
    """
    return _with_names(call, request_schema.plan(call.services.scheduler, call.body))


@blueprint.post(
    "/v1/rebalance",
    policy="scheduler:rebalance",
    body=request_schema.REBALANCE,
    answer=answers.REBALANCE,
)
def rebalance(call: ApiCall) -> ApiResponse:
    """Return moves that make room, empty hosts or even out load, without moving instances.

    Like a plan, it shows instances of every project.
    """
    check_policy_hint(call)
    return _with_names(call, request_schema.rebalance(call.services.scheduler, call.body))


def _with_names(call: ApiCall, body: Json) -> ApiResponse:
    call.read(add_names, [*body["moves"], *body.get("stuck", ())])
    return ApiResponse(body=body)


def add_names(connection: Connection, moves: Sequence[Json]) -> None:
    """Add the names of recorded instances to moves, or to instances that stay."""
    if moves:
        names = instances.display_names(connection, [move["instance"] for move in moves])
        for move in moves:
            move["name"] = names.get(move["instance"])


def check_policy_hint(call: ApiCall) -> None:
    """Reject a body with a policy hint that the caller may not use.

    Raises :class:`Forbidden`.
    """
    entries = [call.body, *call.body.get("requests", ())]
    specs = [entry.get("request_spec") or {} for entry in entries]
    has_hint = any(POLICY_KEY in (spec.get("scheduler_hints") or {}) for spec in specs)
    if has_hint or call.body.get("policy"):
        call.check("scheduler:policies:hint")
