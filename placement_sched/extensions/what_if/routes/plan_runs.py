# SPDX-License-Identifier: Apache-2.0
"""Routes of plan runs: the journal of plans that are carried out.

``placement-sched plan --execute`` and similar commands write the journal, and move the instances
through nova's API.
"""

from placement_sched.api.paging import parse_page, with_next_link
from placement_sched.api.routing import ApiCall, ApiResponse, Blueprint
from placement_sched.api.validation import Schemas
from placement_sched.extensions.what_if import plan_runs, store
from placement_sched.extensions.what_if.routes import responses
from placement_sched.extensions.what_if.routes.plans import add_names
from placement_sched.limits import MAX_MESSAGE_CHARACTERS, MAX_PLAN_MOVES
from placement_sched.model.document import Json, with_whole_numbers
from placement_sched.model.plan_run import (
    DONE,
    FAILED,
    KINDS,
    METHODS,
    RUN_STATES,
    SKIPPED,
    STARTED,
    PlanRun,
)
from placement_sched.schemas.parts import (
    COUNT,
    NAME,
    PAGING,
    UUID,
    build_list_schema,
    build_object_schema,
    make_nullable,
)

blueprint = Blueprint("plan_runs", __name__)

_RUNS = "/v1/plan_runs"
_RUN = "/v1/plan_runs/<uuid>"
_RUNS_POLICY = "scheduler:plan_runs"

_MESSAGE: Json = {"type": "string", "maxLength": MAX_MESSAGE_CHARACTERS}
_MOVE = build_object_schema({"instance": UUID, "from": NAME, "to": NAME}, "instance", "from", "to")
_STUCK = build_object_schema({"instance": UUID, "host": NAME, "reason": _MESSAGE}, "instance")
_FILTERS: Json = {"state": {"enum": list(RUN_STATES)}, "kind": {"enum": list(KINDS)}}
LIST_RUNS = Schemas(build_object_schema({**_FILTERS, **PAGING}))
_NEW: Json = {
    "kind": {"enum": list(KINDS)},
    "method": {"enum": list(METHODS)},
    "parallel": {**COUNT, "maximum": MAX_PLAN_MOVES},
    "executor": UUID,
    "moves": build_list_schema(_MOVE, minItems=1, maxItems=MAX_PLAN_MOVES),
    "stuck": build_list_schema(_STUCK, maxItems=MAX_PLAN_MOVES),
    "request": {"type": "object"},
}
CREATE_RUN = Schemas(build_object_schema(_NEW, "kind", "method", "parallel", "executor", "moves"))
CHANGE_RUN = Schemas(
    build_object_schema(
        {"executor": UUID, "state": {"enum": list(RUN_STATES)}}, "executor", "state"
    )
)
_STATE: Json = {"enum": [STARTED, DONE, FAILED, SKIPPED]}
CHANGE_MOVE = Schemas(
    build_object_schema(
        {"executor": UUID, "state": _STATE, "error": make_nullable(_MESSAGE)}, "executor", "state"
    )
)


@blueprint.get(_RUNS, policy=f"{_RUNS_POLICY}:list", query=LIST_RUNS, response=responses.PLAN_RUNS)
def index(call: ApiCall) -> ApiResponse:
    """List runs, newest first, page by page."""
    query = dict(call.query)
    filters = {name: query[name] for name in _FILTERS if name in query}
    limit, marker = parse_page(query)
    rows = call.read(store.search, filters, marker=marker, limit=limit)
    following = rows[-1].uuid if len(rows) == limit else None
    body = {"plan_runs": [row.as_json() for row in rows], "next": following}
    return with_next_link(call, _RUNS, body)


@blueprint.get(_RUN, policy=f"{_RUNS_POLICY}:show", response=responses.PLAN_RUN)
def show(call: ApiCall, uuid: str) -> ApiResponse:
    """Show a run with its moves."""
    return ApiResponse(body=_render(call, plan_runs.show_run(call.services.scheduler, uuid)))


@blueprint.post(
    _RUNS,
    policy=f"{_RUNS_POLICY}:execute",
    body=CREATE_RUN,
    success=(201,),
    errors=(409,),
    located=True,
    response=responses.PLAN_RUN,
)
def create(call: ApiCall) -> ApiResponse:
    """Record a run with the moves of a plan."""
    document, user_id = with_whole_numbers(call.body), call.identity.user_id or None
    body = _render(call, plan_runs.create_run(call.services.scheduler, document, user_id))
    headers = {"Location": f"{call.url}{_RUNS}/{body['uuid']}"}
    return ApiResponse(status=201, body=body, headers=headers)


@blueprint.put(
    _RUN,
    policy=f"{_RUNS_POLICY}:execute",
    body=CHANGE_RUN,
    errors=(409,),
    response=responses.PLAN_RUN,
)
def change(call: ApiCall, uuid: str) -> ApiResponse:
    """Change the state of a run, or become its executor."""
    run = plan_runs.change_run(call.services.scheduler, uuid, call.body)
    return ApiResponse(body=_render(call, run))


@blueprint.put(
    f"{_RUN}/moves/<instance>",
    policy=f"{_RUNS_POLICY}:execute",
    body=CHANGE_MOVE,
    errors=(409, 500),
    response=responses.RUN_MOVE,
)
def change_move(call: ApiCall, uuid: str, instance: str) -> ApiResponse:
    """Change the state of a move. A move is checked before it starts."""
    move = plan_runs.change_move(call.services.scheduler, uuid, instance, call.body, call.ids)
    return ApiResponse(body=move)


def _render(call: ApiCall, run: PlanRun) -> Json:
    """Return a run as JSON, with the names of its recorded instances."""
    body = run.as_json()
    call.read(add_names, [*body["moves"], *body["stuck"]])
    return body
