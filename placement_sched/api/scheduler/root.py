# SPDX-License-Identifier: Apache-2.0
"""Version document of the scheduler API."""

from placement_sched.api.blueprint import Blueprint
from placement_sched.api.call import ApiCall, ApiResponse
from placement_sched.api.scheduler import answers

#: Resources below ``/v1/``.
_COLLECTIONS = ("compute_nodes", "decisions", "hosts", "instances", "plan_runs", "policies")
_SUMMARIES = ("overview", "decision_counts", "aggregate_check")
_OPERATIONS = (
    "select_destinations",
    "explain",
    "plan",
    "rebalance",
    "capacity",
    "failover_capacity",
)

blueprint = Blueprint("root", __name__)


@blueprint.get("/", policy="scheduler:root:show", answer=answers.ROOT)
def index(call: ApiCall) -> ApiResponse:
    """List the resources at the root of the API."""
    return show(call)


@blueprint.get("/v1", policy="scheduler:root:show", answer=answers.ROOT)
@blueprint.get("/v1/", policy="scheduler:root:show", answer=answers.ROOT)
def show(call: ApiCall) -> ApiResponse:
    """List the resources and their addresses."""
    links = {name: f"{call.base}/v1/{name}" for name in (*_COLLECTIONS, *_SUMMARIES, *_OPERATIONS)}
    return ApiResponse(body={"id": "v1", "status": "CURRENT", "resources": links})
