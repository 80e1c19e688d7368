# SPDX-License-Identifier: Apache-2.0
"""Routes of scheduling, of policies, and of plans and their runs.

A request may name a scheduling policy. ``GET /policies`` lists the policies. ``POST /plan`` and
``POST /rebalance`` simulate changes in a transaction that is rolled back. Plan runs are the journal
of plans that are carried out, and of their moves. ``placement-sched plan --execute`` and similar
commands write the journal, and move the instances through nova's API.
"""

from collections.abc import Mapping, Sequence

from placement_sched.api.paging import parse_page, with_next_link
from placement_sched.api.routing import ApiCall, ApiResponse, Blueprint
from placement_sched.api.scheduler import request_schema, responses
from placement_sched.api.validation import Schemas
from placement_sched.db.transaction import Connection
from placement_sched.errors import Invalid, NoValidHost
from placement_sched.explain.values import ExplanationView
from placement_sched.extensions.what_if import plan_runs, store
from placement_sched.extensions.what_if.drain_plan import plan_drain
from placement_sched.extensions.what_if.rebalance import FIT, advise
from placement_sched.limits import MAX_MESSAGE_CHARACTERS, MAX_PLAN_MOVES
from placement_sched.model.aggregates import POLICY_KEY
from placement_sched.model.context import NO_REQUEST, RequestIds
from placement_sched.model.document import Json, with_whole_numbers
from placement_sched.model.plan_run import (
    DONE,
    FAILED,
    KINDS,
    METHODS,
    RUN_STATES,
    SKIPPED,
    STARTED,
)
from placement_sched.model.request_stats import get_request_stats
from placement_sched.scheduler import policy_views
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.schemas.parts import (
    COUNT,
    NAME,
    PAGING,
    UUID,
    build_list_schema,
    build_object_schema,
    make_nullable,
)
from placement_sched.store.compute import instances

select_blueprint = Blueprint("select_destinations", __name__)

_POLICY = "scheduler:select_destinations"
_POLICIES = "scheduler:policies"
#: Default maximum number of moves of a rebalance request.
_DEFAULT_MOVES = 5


@select_blueprint.post(
    "/v1/select_destinations",
    policy=_POLICY,
    body=request_schema.SELECT,
    errors=(404, 409, 500),
    response=responses.SELECT,
)
def select(call: ApiCall) -> ApiResponse:
    """Select hosts for a request spec, or several requests together.

    The hosts are claimed unless ``claim`` is false.
    """
    check_policy_hint(call)
    return ApiResponse(body=select_hosts(call.services.scheduler, call.body, call.ids))


@select_blueprint.post(
    "/v1/explain",
    policy="scheduler:explain",
    body=request_schema.EXPLAIN,
    errors=(404, 500),
    response=responses.EXPLAIN,
)
def explain(call: ApiCall) -> ApiResponse:
    """Return the funnel and hosts of a request without claiming."""
    check_policy_hint(call)
    return ApiResponse(body=explain_request(call.services.scheduler, call.body, call.ids))


@select_blueprint.get("/v1/policies", policy=f"{_POLICIES}:list", response=responses.POLICIES)
def list_policies(call: ApiCall) -> ApiResponse:
    """List policies (the default first), selectors and access rules."""
    services = call.services
    access = {
        "auth_strategy": services.settings.api.auth_strategy,
        **services.policy.describe_files(),
    }
    body = {
        "policies": policy_views.list_policies(services.scheduler),
        "selectors": policy_views.list_selectors(services.scheduler),
        "access": access,
    }
    return ApiResponse(body=body)


@select_blueprint.get("/v1/policies/<name>", policy=f"{_POLICIES}:show", response=responses.POLICY)
def show_policy(call: ApiCall, name: str) -> ApiResponse:
    """Show a policy."""
    return ApiResponse(body=policy_views.show_policy(call.services.scheduler, name))


plan_blueprint = Blueprint("plan", __name__, errors=(404, 500))


@plan_blueprint.post(
    "/v1/plan", policy="scheduler:plan", body=request_schema.PLAN, response=responses.PLAN
)
def plan(call: ApiCall) -> ApiResponse:
    """Plan the moves that changes of the cloud require, without moving.

    Like explanations, plans are for operators: a plan shows hosts and instances of every project.
    """
    return _with_names(call, plan_changes(call.services.scheduler, call.body))


@plan_blueprint.post(
    "/v1/rebalance",
    policy="scheduler:rebalance",
    body=request_schema.REBALANCE,
    response=responses.REBALANCE,
)
def rebalance(call: ApiCall) -> ApiResponse:
    """Suggest moves that free capacity, empty hosts or even out load.

    Like a plan, the response shows instances of every project.
    """
    check_policy_hint(call)
    return _with_names(call, suggest_moves(call.services.scheduler, call.body))


def _with_names(call: ApiCall, body: Json) -> ApiResponse:
    call.read(add_names, [*body["moves"], *body.get("stuck", ())])
    return ApiResponse(body=body)


def add_names(connection: Connection, moves: Sequence[Json]) -> None:
    """Add the names of recorded instances to moves, or to instances that stay."""
    if moves:
        names = instances.map_display_names(connection, [move["instance"] for move in moves])
        for move in moves:
            move["name"] = names.get(move["instance"])


runs_blueprint = Blueprint("plan_runs", __name__)

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


@runs_blueprint.get(
    _RUNS, policy=f"{_RUNS_POLICY}:list", query=LIST_RUNS, response=responses.PLAN_RUNS
)
def index(call: ApiCall) -> ApiResponse:
    """List runs, newest first, page by page."""
    body = list_runs(call.services.scheduler, dict(call.query))
    return with_next_link(call, _RUNS, body)


@runs_blueprint.get(_RUN, policy=f"{_RUNS_POLICY}:show", response=responses.PLAN_RUN)
def show(call: ApiCall, uuid: str) -> ApiResponse:
    """Show a run with its moves."""
    return ApiResponse(body=show_run(call.services.scheduler, uuid))


@runs_blueprint.post(
    _RUNS,
    policy=f"{_RUNS_POLICY}:execute",
    body=CREATE_RUN,
    success=(201,),
    located=True,
    response=responses.PLAN_RUN,
)
def create(call: ApiCall) -> ApiResponse:
    """Record a run with the moves of a plan."""
    body = create_run(call.services.scheduler, call.body, call.identity.user_id)
    headers = {"Location": f"{call.url}{_RUNS}/{body['uuid']}"}
    return ApiResponse(status=201, body=body, headers=headers)


@runs_blueprint.put(
    _RUN,
    policy=f"{_RUNS_POLICY}:execute",
    body=CHANGE_RUN,
    errors=(409,),
    response=responses.PLAN_RUN,
)
def change(call: ApiCall, uuid: str) -> ApiResponse:
    """Change the state of a run, or become its executor."""
    return ApiResponse(body=change_run(call.services.scheduler, uuid, call.body))


@runs_blueprint.put(
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


def list_runs(scheduler: Scheduler, query: Mapping[str, str]) -> Json:
    """List a page of runs, newest first.

    ``next`` is the marker of the next page, or None.
    """
    filters = {name: query[name] for name in _FILTERS if name in query}
    limit, marker = parse_page(query)
    with scheduler.database.read() as connection:
        rows = store.search(connection, filters, marker=marker, limit=limit)
    following = rows[-1].uuid if len(rows) == limit else None
    return {"plan_runs": [row.as_json() for row in rows], "next": following}


def show_run(scheduler: Scheduler, uuid: str) -> Json:
    """Return a run, with the names of its recorded instances."""
    return _add_instance_names(scheduler, plan_runs.show_run(scheduler, uuid).as_json())


def create_run(scheduler: Scheduler, body: Json, user_id: str | None = None) -> Json:
    """Record a run and return it."""
    body = with_whole_numbers(body)
    return _add_instance_names(scheduler, plan_runs.create_run(scheduler, body, user_id).as_json())


def change_run(scheduler: Scheduler, uuid: str, body: Json) -> Json:
    """Change the state of a run and return it."""
    return _add_instance_names(scheduler, plan_runs.change_run(scheduler, uuid, body).as_json())


def _add_instance_names(scheduler: Scheduler, run: Json) -> Json:
    with scheduler.database.read() as connection:
        add_names(connection, [*run["moves"], *run["stuck"]])
    return run


def select_hosts(scheduler: Scheduler, body: Json, ids: RequestIds = NO_REQUEST) -> Json:
    """Select hosts for a request, or for several, and claim them."""
    body = with_whole_numbers(body)
    _check_requests(body)
    stats = get_request_stats()
    options: Json = {
        "alternates": body.get("return_alternates", False),
        "claiming": request_schema.CLAIM_MODES[body.get("claim", True)],
        "ids": ids,
    }
    try:
        if "requests" not in body:
            stats.result = scheduler.select_destinations(body["request_spec"], **options)
            return stats.result.result
        specs = [entry["request_spec"] for entry in body["requests"]]
        results = scheduler.select_together(specs, **options)
    except NoValidHost as error:
        stats.result = error.result
        raise
    stats.other_results = tuple(results)
    return {"results": [result.result for result in results]}


def _check_requests(body: Json) -> None:
    if "requests" in body and "request_spec" in body:
        raise Invalid(
            "the body has both requests and request_spec: send either", json_path="$.requests"
        )
    if "requests" in body and body.get("claim") == "add":
        raise Invalid(
            "claim 'add' is not possible with requests: move each instance by a request of its own",
            json_path="$.claim",
        )


def explain_request(scheduler: Scheduler, body: Json, ids: RequestIds = NO_REQUEST) -> Json:
    """Return the funnel and hosts of a request without claiming.

    With ``keep`` the explanation is recorded as a decision with the request ids ``ids``.
    """
    body = with_whole_numbers(body)
    hosts = body.get("hosts")
    view = ExplanationView(
        hosts=None if hosts is None else tuple(hosts),
        max_rejected=body.get("max_rejected", ExplanationView().max_rejected),
    )
    result = scheduler.explain(
        body["request_spec"],
        overrides=body.get("overrides") or {},
        view=view,
        alternates=body.get("return_alternates", False),
        policy=body.get("policy"),
        changes=body.get("changes") or (),
        recorded_for=ids if body.get("keep") else None,
    )
    get_request_stats().result = result
    return result.result


def plan_changes(scheduler: Scheduler, body: Json) -> Json:
    """Plan the moves that changes require, with their effect on capacity."""
    body = with_whole_numbers(body)
    changes = scheduler.read_changes(body["changes"])
    overrides = body.get("overrides") or {}
    return plan_drain(scheduler, changes, body.get("flavors"), overrides)


def suggest_moves(scheduler: Scheduler, body: Json) -> Json:
    """Suggest moves towards a goal, without moving instances."""
    body = with_whole_numbers(body)
    document = body.get("request_spec")
    if (body["goal"] == FIT) is (document is None):
        rule = "requires a request_spec" if document is None else "does not allow a request_spec"
        raise Invalid(f"the goal {body['goal']} {rule}", json_path="$.goal")
    return advise(scheduler, body["goal"], document, body.get("moves", _DEFAULT_MOVES)).as_json()


def check_policy_hint(call: ApiCall) -> None:
    """Reject a body with a policy hint that the caller may not use.

    Raises :class:`Forbidden`.
    """
    entries = [call.body, *call.body.get("requests", ())]
    specs = [entry.get("request_spec") or {} for entry in entries]
    has_hint = any(POLICY_KEY in (spec.get("scheduler_hints") or {}) for spec in specs)
    if has_hint or call.body.get("policy"):
        call.check("scheduler:policies:hint")
