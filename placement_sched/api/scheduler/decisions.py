# SPDX-License-Identifier: Apache-2.0
"""Routes of decisions."""

from urllib.parse import urlencode

from placement_sched.api.blueprint import Blueprint
from placement_sched.api.call import ApiCall, ApiResponse
from placement_sched.api.paging import pairs_after
from placement_sched.api.scheduler import answers, recorded

blueprint = Blueprint("decisions", __name__)

_ALL = "/v1/decisions"
_ONE = "/v1/decisions/<uuid>"
_POLICY = "scheduler:decisions"


@blueprint.get(_ALL, policy=f"{_POLICY}:list", query=recorded.LIST, answer=answers.LIST_DECISIONS)
def index(call: ApiCall) -> ApiResponse:
    """List decisions, newest first, page by page.

    A page of decisions that rejected a host may have fewer entries than the limit although
    another page follows.
    """
    body = recorded.list_decisions(call.services.scheduler, dict(call.query))
    links = []
    if (marker := body.pop("next")) is not None:
        href = f"{call.base}{_ALL}?{urlencode(pairs_after(call, marker))}"
        links.append({"rel": "next", "href": href})
    return ApiResponse(body={**body, "links": links})


@blueprint.get(_ONE, policy=f"{_POLICY}:show", answer=answers.SHOW_DECISION)
def show(call: ApiCall, uuid: str) -> ApiResponse:
    """Show a decision with its request and funnel."""
    return ApiResponse(body=recorded.show_decision(call.services.scheduler, uuid))


@blueprint.post(
    f"{_ONE}/replay",
    policy=f"{_POLICY}:replay",
    body=recorded.REPLAY,
    refusals=(404, 500),
    answer=answers.REPLAY,
)
def replay(call: ApiCall, uuid: str) -> ApiResponse:
    """Evaluate the request of a decision again and return the differences."""
    return ApiResponse(body=recorded.replay_decision(call.services.scheduler, uuid, call.body))
