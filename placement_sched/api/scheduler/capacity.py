# SPDX-License-Identifier: Apache-2.0
"""Route of capacity: ``POST /capacity``."""

from placement_sched.api.blueprint import Blueprint
from placement_sched.api.call import ApiCall, ApiResponse
from placement_sched.api.scheduler import answers
from placement_sched.api.scheduler.plan import check_policy_hint
from placement_sched.api.scheduler.request_schema import OVERRIDES, REQUEST_SPEC
from placement_sched.api.validation import Schemas
from placement_sched.limits import MAX_CAPACITY_FLAVORS
from placement_sched.model.document import Json, with_whole_numbers
from placement_sched.scheduler.capacity.count import CloudPart
from placement_sched.scheduler.capacity.report import CapacityQuery, capacity
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.scheduler.simulation import changes_from
from placement_sched.schemas.changes import CHANGES
from placement_sched.schemas.parts import BOOLEAN, NAME, list_schema, nullable, object_schema

blueprint = Blueprint("capacity", __name__, policy="scheduler:capacity")

#: ``request_spec`` needs no flavor if the body has ``flavors`` or ``all_flavors``.
_REQUEST_SPEC: Json = {key: value for key, value in REQUEST_SPEC.items() if key != "required"}
_FLAVORS: Json = list_schema(
    REQUEST_SPEC["properties"]["flavor"], minItems=1, maxItems=MAX_CAPACITY_FLAVORS
)
_PROPERTIES: Json = {
    "request_spec": _REQUEST_SPEC,
    "flavors": _FLAVORS,
    "all_flavors": BOOLEAN,
    "per": nullable({"type": "string", "enum": [per.value for per in CloudPart]}),
    "policy": nullable(NAME),
    "overrides": OVERRIDES,
    "changes": CHANGES,
}
CAPACITY = Schemas(object_schema(_PROPERTIES, "request_spec"))


@blueprint.post("/v1/capacity", body=CAPACITY, errors=(404, 500), answer=answers.CAPACITY)
def count(call: ApiCall) -> ApiResponse:
    """Count how many more instances of a request fit, without claiming."""
    check_policy_hint(call)
    return ApiResponse(body=answer(call.services.scheduler, call.body))


def answer(scheduler: Scheduler, body: Json) -> Json:
    """Count how many more instances fit, of a request or of each flavor."""
    body = with_whole_numbers(body)
    per = body.get("per")
    query = CapacityQuery(
        document=body["request_spec"],
        per=None if per is None else CloudPart(per),
        policy=body.get("policy"),
        overrides=body.get("overrides") or {},
        flavors=body.get("flavors", ()),
        all_flavors=body.get("all_flavors", False),
    )
    return capacity(scheduler, query, changes_from(body.get("changes")))
