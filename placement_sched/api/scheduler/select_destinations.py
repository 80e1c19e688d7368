# SPDX-License-Identifier: Apache-2.0
"""Routes of scheduling: ``POST /select_destinations`` and ``POST /explain``.

A request may name a scheduling policy. ``GET /policies`` lists the policies.
"""

from placement_sched.api.routing import ApiCall, ApiResponse, Blueprint
from placement_sched.api.scheduler import answers, request_schema
from placement_sched.api.scheduler.plan import check_policy_hint
from placement_sched.scheduler import policy_views

blueprint = Blueprint("select_destinations", __name__)

_POLICY = "scheduler:select_destinations"
_POLICIES = "scheduler:policies"


@blueprint.post(
    "/v1/select_destinations",
    policy=_POLICY,
    body=request_schema.SELECT,
    errors=(404, 409, 500),
    answer=answers.SELECT,
)
def select(call: ApiCall) -> ApiResponse:
    """Select hosts for a request spec, or several requests together.

    The hosts are claimed unless ``claim`` is false.
    """
    check_policy_hint(call)
    return ApiResponse(body=request_schema.select(call.services.scheduler, call.body, call.ids))


@blueprint.post(
    "/v1/explain",
    policy="scheduler:explain",
    body=request_schema.EXPLAIN,
    errors=(404, 500),
    answer=answers.EXPLAIN,
)
def explain(call: ApiCall) -> ApiResponse:
    """Return the funnel and hosts of a request without claiming."""
    check_policy_hint(call)
    return ApiResponse(body=request_schema.explain(call.services.scheduler, call.body, call.ids))


@blueprint.get("/v1/policies", policy=f"{_POLICIES}:list", answer=answers.POLICIES)
def list_policies(call: ApiCall) -> ApiResponse:
    """List the policies, the default first, the selectors and the access rules."""
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


@blueprint.get("/v1/policies/<name>", policy=f"{_POLICIES}:show", answer=answers.POLICY)
def show_policy(call: ApiCall, name: str) -> ApiResponse:
    """Show a policy."""
    return ApiResponse(body=policy_views.show_policy(call.services.scheduler, name))
