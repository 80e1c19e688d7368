# SPDX-License-Identifier: Apache-2.0
"""Routes of ``/violations``."""

from placement_sched.api.paging import parse_page, with_next_link
from placement_sched.api.routing import ApiCall, ApiResponse, Blueprint
from placement_sched.api.validation import Schemas
from placement_sched.errors import NotFound
from placement_sched.extensions.what_if import store
from placement_sched.extensions.what_if.routes import responses
from placement_sched.extensions.what_if.violations.rules import FILTERS, select_violations
from placement_sched.extensions.what_if.violations.task import ViolationRun
from placement_sched.schemas.parts import NAME, PAGING, build_object_schema

blueprint = Blueprint("violations", __name__, policy="scheduler:violations")

_VIOLATIONS = "/v1/violations"
LIST = Schemas(build_object_schema(dict.fromkeys(FILTERS, NAME) | PAGING))
START = Schemas(build_object_schema({}))


@blueprint.get(_VIOLATIONS, query=LIST, errors=(404,), response=responses.VIOLATIONS)
def index(call: ApiCall) -> ApiResponse:
    """List the servers of the last computation, sorted by uuid, page by page."""
    report = call.read(store.read_violations)
    if report is None:
        raise NotFound(
            "The violations were not computed yet: send POST /scheduler/v1/violations",
            code="scheduler.not_found",
        )
    filters = {key: call.list_values(key) for key in FILTERS}
    body = call.read(select_violations, call.services.scheduler, report, filters)
    limit, marker = parse_page(dict(call.query))
    remaining = [each for each in body["violations"] if marker is None or each["uuid"] > marker]
    page = remaining[:limit]
    following = page[-1]["uuid"] if len(remaining) > limit else None
    return with_next_link(call, _VIOLATIONS, {**body, "violations": page, "next": following})


@blueprint.post(
    _VIOLATIONS, body=START, success=(202,), errors=(409,), response=responses.VIOLATION_RUN
)
def start(call: ApiCall) -> ApiResponse:
    """Start to check all servers in the background."""
    ViolationRun(call.services.scheduler).start()
    return ApiResponse(status=202, body={"started_at": call.read_clock().isoformat()})
