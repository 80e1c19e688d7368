# SPDX-License-Identifier: Apache-2.0
"""Routes of the failover capacity: ``GET`` and ``POST /failover_capacity``."""

from placement_sched.api.blueprint import Blueprint
from placement_sched.api.call import ApiCall, ApiResponse
from placement_sched.api.scheduler import answers
from placement_sched.api.validation import Schemas
from placement_sched.errors import NotFound
from placement_sched.limits import MAX_HOST_FAILURES
from placement_sched.model.document import Json, with_whole_numbers
from placement_sched.scheduler.failover.report import FailoverQuery, failover_capacity
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.schemas.parts import BOOLEAN, COUNT, NAME, nullable, object_schema
from placement_sched.store import failover_results

blueprint = Blueprint(
    "failover_capacity",
    __name__,
    policy="scheduler:failover_capacity",
    answer=answers.FAILOVER_CAPACITY,
)

_PROPERTIES: Json = {
    "host_failures": {**COUNT, "maximum": MAX_HOST_FAILURES},
    "within": nullable(NAME),
    "remaining": BOOLEAN,
}
FAILOVER_CAPACITY = Schemas(object_schema(_PROPERTIES))


@blueprint.get("/v1/failover_capacity", errors=(404,))
def show(call: ApiCall) -> ApiResponse:
    """Show the last result of the background computation."""
    result = call.read(failover_results.read)
    if result is None:
        raise NotFound(
            "The failover capacity was not computed yet: set [scheduler] failover_interval",
            code="scheduler.not_found",
        )
    return ApiResponse(body={**result.answer, "age": round(result.age(call.now()), 3)})


@blueprint.post("/v1/failover_capacity", body=FAILOVER_CAPACITY, errors=(500,))
def compute(call: ApiCall) -> ApiResponse:
    """Compute whether all instances of failed hosts find places, without moving them."""
    return ApiResponse(body=answer(call.services.scheduler, call.body))


def answer(scheduler: Scheduler, body: Json) -> Json:
    """Return the failover capacity for the body of a request."""
    body = with_whole_numbers(body)
    query = FailoverQuery(
        host_failures=body.get("host_failures", 1),
        within=body.get("within"),
        with_remaining=body.get("remaining", True),
        seconds=scheduler.live.settings().scheduler.failover_budget,
    )
    return {**failover_capacity(scheduler, query), "age": 0.0}
