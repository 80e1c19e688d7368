# SPDX-License-Identifier: Apache-2.0
"""Routes of scheduling and of scheduling policies."""

from placement_sched.api.routing import ApiCall, ApiResponse, Blueprint
from placement_sched.api.scheduler import policy_views, request_schema, responses
from placement_sched.errors import Invalid, NoValidHost
from placement_sched.explain.values import ExplanationView
from placement_sched.model.aggregates import POLICY_KEY
from placement_sched.model.document import Json, with_whole_numbers
from placement_sched.model.request_stats import get_request_stats
from placement_sched.scheduler.joint_requests import select_together

select_blueprint = Blueprint("select_destinations", __name__)

_POLICY = "scheduler:select_destinations"
_POLICIES = "scheduler:policies"


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
    body, scheduler = with_whole_numbers(call.body), call.services.scheduler
    if "requests" in body and "request_spec" in body:
        raise Invalid(
            "the body has both requests and request_spec: send either", json_path="$.requests"
        )
    if "requests" in body and body.get("claim") == "add":
        raise Invalid(
            "claim 'add' is not possible with requests: move each instance by a request of its own",
            json_path="$.claim",
        )
    stats = get_request_stats()
    options: Json = {
        "alternates": body.get("return_alternates", False),
        "claiming": request_schema.CLAIM_MODES[body.get("claim", True)],
        "ids": call.ids,
    }
    try:
        if "requests" not in body:
            result = scheduler.select_destinations(body["request_spec"], **options)
            stats.result = result
            return ApiResponse(body=result.as_json())
        specs = [entry["request_spec"] for entry in body["requests"]]
        results = select_together(scheduler, specs, **options)
    except NoValidHost as error:
        stats.result = error.result
        raise
    stats.other_results = tuple(results)
    return ApiResponse(body={"results": [result.as_json() for result in results]})


@select_blueprint.post(
    "/v1/explain",
    policy="scheduler:explain",
    body=request_schema.EXPLAIN,
    errors=(404, 500),
    response=responses.EXPLAIN,
)
def explain(call: ApiCall) -> ApiResponse:
    """Return the funnel and hosts of a request without claiming.

    With ``keep`` the explanation is recorded as a decision.
    """
    check_policy_hint(call)
    body = with_whole_numbers(call.body)
    hosts = body.get("hosts")
    view = ExplanationView(
        hosts=None if hosts is None else tuple(hosts),
        max_rejected=body.get("max_rejected", ExplanationView().max_rejected),
    )
    result = call.services.scheduler.explain(
        body["request_spec"],
        overrides=body.get("overrides") or {},
        view=view,
        alternates=body.get("return_alternates", False),
        policy=body.get("policy"),
        changes=body.get("changes") or (),
        recorded_for=call.ids if body.get("keep") else None,
    )
    get_request_stats().result = result
    return ApiResponse(body=result.explanation)


@select_blueprint.get("/v1/policies", policy=f"{_POLICIES}:list", response=responses.POLICIES)
def list_policies(call: ApiCall) -> ApiResponse:
    """List policies (the default first), selectors and access rules."""
    services = call.services
    strategy = services.settings.api.auth_strategy
    body = {
        "policies": policy_views.list_policies(services.scheduler),
        "selectors": policy_views.list_selectors(services.scheduler),
        "access": {"auth_strategy": strategy, **services.policy.describe_files()},
    }
    return ApiResponse(body=body)


@select_blueprint.get("/v1/policies/<name>", policy=f"{_POLICIES}:show", response=responses.POLICY)
def show_policy(call: ApiCall, name: str) -> ApiResponse:
    """Show a policy."""
    return ApiResponse(body=policy_views.show_policy(call.services.scheduler, name))


def check_policy_hint(call: ApiCall) -> None:
    """Raise :class:`Forbidden` for a policy hint that is not allowed."""
    entries = [call.body, *call.body.get("requests", ())]
    specs = [entry.get("request_spec") or {} for entry in entries]
    has_hint = any(POLICY_KEY in (spec.get("scheduler_hints") or {}) for spec in specs)
    if has_hint or call.body.get("policy"):
        call.check("scheduler:policies:hint")
