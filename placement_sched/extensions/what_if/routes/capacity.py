# SPDX-License-Identifier: Apache-2.0
"""Routes of ``/capacity`` and ``/failover_capacity``."""

from placement_sched.api.routing import ApiCall, ApiResponse, Blueprint
from placement_sched.api.scheduler.request_schema import OVERRIDES
from placement_sched.api.scheduler.scheduling import check_policy_hint
from placement_sched.api.validation import Schemas
from placement_sched.errors import NotFound
from placement_sched.extensions.what_if.capacity.count import CloudPart
from placement_sched.extensions.what_if.capacity.report import CapacityQuery, report_capacity
from placement_sched.extensions.what_if.failover.report import (
    FailoverQuery,
    report_failover_capacity,
)
from placement_sched.extensions.what_if.routes import responses
from placement_sched.limits import MAX_CAPACITY_FLAVORS, MAX_HOST_FAILURES
from placement_sched.model.document import Json, with_whole_numbers
from placement_sched.schemas.parts import (
    BOOLEAN,
    CHANGES,
    COUNT,
    NAME,
    build_list_schema,
    build_object_schema,
    make_nullable,
)
from placement_sched.schemas.request_spec import REQUEST_SPEC
from placement_sched.store import figures

blueprint = Blueprint("capacity", __name__, policy="scheduler:capacity")

#: ``request_spec`` needs no flavor if the body has ``flavors`` or ``all_flavors``.
_REQUEST_SPEC: Json = {key: value for key, value in REQUEST_SPEC.items() if key != "required"}
_FLAVORS: Json = build_list_schema(
    REQUEST_SPEC["properties"]["flavor"], minItems=1, maxItems=MAX_CAPACITY_FLAVORS
)
_PROPERTIES: Json = {
    "request_spec": _REQUEST_SPEC,
    "flavors": _FLAVORS,
    "all_flavors": BOOLEAN,
    "per": make_nullable({"type": "string", "enum": [per.value for per in CloudPart]}),
    "policy": make_nullable(NAME),
    "overrides": OVERRIDES,
    "changes": CHANGES,
}
CAPACITY = Schemas(build_object_schema(_PROPERTIES, "request_spec"))


@blueprint.post("/v1/capacity", body=CAPACITY, errors=(404, 500), response=responses.CAPACITY)
def count(call: ApiCall) -> ApiResponse:
    """Count how many more instances of a request fit, without claiming."""
    check_policy_hint(call)
    body, scheduler = with_whole_numbers(call.body), call.services.scheduler
    per = body.get("per")
    query = CapacityQuery(
        document=body["request_spec"],
        per=None if per is None else CloudPart(per),
        policy=body.get("policy"),
        overrides=body.get("overrides") or {},
        flavors=body.get("flavors", ()),
        all_flavors=body.get("all_flavors", False),
    )
    changes = scheduler.read_changes(body.get("changes"))
    report = scheduler.run_with(changes, lambda evaluator: report_capacity(evaluator, query))
    return ApiResponse(body=report)


failover_blueprint = Blueprint(
    "failover_capacity",
    __name__,
    policy="scheduler:failover_capacity",
    response=responses.FAILOVER_CAPACITY,
)

_FAILOVER_PROPERTIES: Json = {
    "host_failures": {**COUNT, "maximum": MAX_HOST_FAILURES},
    "within": make_nullable(NAME),
    "remaining": BOOLEAN,
}
FAILOVER_CAPACITY = Schemas(build_object_schema(_FAILOVER_PROPERTIES))


@failover_blueprint.get("/v1/failover_capacity", errors=(404,))
def show(call: ApiCall) -> ApiResponse:
    """Show the last result of the background computation."""
    result = call.read(figures.read_failover_result)
    if result is None:
        raise NotFound(
            "The failover capacity was not computed yet: set [scheduler] failover_interval",
            code="scheduler.not_found",
        )
    return ApiResponse(
        body={**result.report, "age": round(result.compute_age(call.read_clock()), 3)}
    )


@failover_blueprint.post("/v1/failover_capacity", body=FAILOVER_CAPACITY, errors=(500,))
def compute(call: ApiCall) -> ApiResponse:
    """Compute whether all instances of failed hosts fit on other hosts."""
    body, scheduler = with_whole_numbers(call.body), call.services.scheduler
    query = FailoverQuery(
        host_failures=body.get("host_failures", 1),
        within=body.get("within"),
        with_remaining=body.get("remaining", True),
        seconds=scheduler.live.get_settings().scheduler.failover_budget,
    )
    return ApiResponse(body={**report_failover_capacity(scheduler, query), "age": 0.0})
