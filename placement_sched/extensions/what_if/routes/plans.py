# SPDX-License-Identifier: Apache-2.0
"""Routes of ``/plan``, ``/evacuation`` and ``/rebalance``."""

from collections.abc import Sequence

from placement_sched.api.routing import ApiCall, ApiResponse, Blueprint
from placement_sched.api.scheduler.request_schema import OVERRIDES
from placement_sched.api.scheduler.scheduling import check_policy_hint
from placement_sched.api.validation import Schemas
from placement_sched.db.transaction import Connection
from placement_sched.errors import Invalid
from placement_sched.extensions.what_if.drain_plan import plan_drain
from placement_sched.extensions.what_if.evacuation import plan_evacuation
from placement_sched.extensions.what_if.rebalance import FIT, GOALS, advise
from placement_sched.extensions.what_if.routes import responses
from placement_sched.limits import MAX_CAPACITY_FLAVORS, MAX_MOVES
from placement_sched.model.document import Json, with_whole_numbers
from placement_sched.schemas.parts import (
    CHANGES,
    COUNT,
    NAME,
    build_list_schema,
    build_object_schema,
    make_nullable,
)
from placement_sched.schemas.request_spec import REQUEST_SPEC
from placement_sched.store.compute import instances

blueprint = Blueprint("plan", __name__, errors=(404, 500))

_PLAN_PROPERTIES: Json = {
    "changes": CHANGES,
    "flavors": make_nullable(build_list_schema(NAME, maxItems=MAX_CAPACITY_FLAVORS)),
    "overrides": OVERRIDES,
}
PLAN = Schemas(build_object_schema(_PLAN_PROPERTIES, "changes"))
EVACUATION = Schemas(build_object_schema({"host": NAME}, "host"))
_REBALANCE_PROPERTIES: Json = {
    "goal": {"enum": list(GOALS)},
    "request_spec": REQUEST_SPEC,
    "moves": {**COUNT, "maximum": MAX_MOVES},
}
REBALANCE = Schemas(build_object_schema(_REBALANCE_PROPERTIES, "goal"))
#: Default maximum number of moves of a rebalance request.
_DEFAULT_MOVES = 5


@blueprint.post("/v1/plan", policy="scheduler:plan", body=PLAN, response=responses.PLAN)
def plan(call: ApiCall) -> ApiResponse:
    """Plan the moves that changes of the cloud require, without moving.

    Like explanations, plans are for operators: a plan shows hosts and instances of every project.
    """
    body, scheduler = with_whole_numbers(call.body), call.services.scheduler
    changes = scheduler.read_changes(body["changes"])
    overrides = body.get("overrides") or {}
    return _with_names(call, plan_drain(scheduler, changes, body.get("flavors"), overrides))


@blueprint.post(
    "/v1/evacuation",
    policy="scheduler:evacuation",
    body=EVACUATION,
    errors=(409,),
    response=responses.EVACUATION,
)
def evacuation(call: ApiCall) -> ApiResponse:
    """Plan the new hosts of the instances of a host that is down.

    Like a plan, the response shows instances of every project.
    """
    return _with_names(call, plan_evacuation(call.services.scheduler, call.body["host"]))


@blueprint.post(
    "/v1/rebalance", policy="scheduler:rebalance", body=REBALANCE, response=responses.REBALANCE
)
def rebalance(call: ApiCall) -> ApiResponse:
    """Suggest moves that reach a goal.

    Goals are to free capacity, empty hosts, even out load or end violations. Like a plan,
    the response shows instances of every project.
    """
    check_policy_hint(call)
    body, scheduler = with_whole_numbers(call.body), call.services.scheduler
    document = body.get("request_spec")
    if (body["goal"] == FIT) is (document is None):
        rule = "requires a request_spec" if document is None else "does not allow a request_spec"
        raise Invalid(f"the goal {body['goal']} {rule}", json_path="$.goal")
    advice = advise(scheduler, body["goal"], document, body.get("moves", _DEFAULT_MOVES))
    return _with_names(call, advice.as_json())


def _with_names(call: ApiCall, body: Json) -> ApiResponse:
    call.read(add_names, [*body["moves"], *body.get("stuck", ())])
    return ApiResponse(body=body)


def add_names(connection: Connection, moves: Sequence[Json]) -> None:
    """Add the names of recorded instances to moves, or to instances that stay."""
    if moves:
        names = instances.map_display_names(connection, [move["instance"] for move in moves])
        for move in moves:
            move["name"] = names.get(move["instance"])
