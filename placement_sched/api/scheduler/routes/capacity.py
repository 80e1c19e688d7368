"""POST /capacity: how many more instances of a request fit."""

from placement_sched.api.blueprint import Blueprint
from placement_sched.api.call import Answer, Call
from placement_sched.api.scheduler.request_schema import OVERRIDES, REQUEST_SPEC
from placement_sched.api.scheduler.routes.select_destinations import check_policy_hint
from placement_sched.api.validation import Schemas
from placement_sched.limits import MAX_CAPACITY_FLAVORS
from placement_sched.model.document import Json, with_whole_numbers
from placement_sched.scheduler.capacity.count import Per
from placement_sched.scheduler.capacity.report import CapacityQuestion, capacity
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.scheduler.simulation import changes_from
from placement_sched.schemas.changes import CHANGES
from placement_sched.schemas.parts import BOOLEAN, NAME, a_list, an_object, or_null

blueprint = Blueprint("capacity", __name__)

#: The flavor may be left out where others are asked about.
_REQUEST: Json = {key: value for key, value in REQUEST_SPEC.items() if key != "required"}
_FLAVORS: Json = a_list(
    REQUEST_SPEC["properties"]["flavor"], minItems=1, maxItems=MAX_CAPACITY_FLAVORS
)
_ASKING: Json = {
    "request_spec": _REQUEST,
    "flavors": _FLAVORS,
    "all_flavors": BOOLEAN,
    "per": or_null({"type": "string", "enum": [per.value for per in Per]}),
    "policy": or_null(NAME),
    "overrides": OVERRIDES,
    "changes": CHANGES,
}
CAPACITY = Schemas(an_object(_ASKING, "request_spec"))


@blueprint.post("/v1/capacity", policy="scheduler:capacity", body=CAPACITY, refusals=(404, 500))
def count(call: Call) -> Answer:
    """Return how many more instances of the request fit; nothing is claimed."""
    check_policy_hint(call)
    return Answer(body=answer(call.services.scheduler, call.body))


def answer(scheduler: Scheduler, body: Json) -> Json:
    """Return how many more instances of the request fit, or of each flavor."""
    body = with_whole_numbers(body)
    per = body.get("per")
    question = CapacityQuestion(
        document=body["request_spec"],
        per=None if per is None else Per(per),
        policy=body.get("policy"),
        overrides=body.get("overrides") or {},
        flavors=body.get("flavors", ()),
        all_flavors=body.get("all_flavors", False),
    )
    return capacity(scheduler, question, changes_from(body.get("changes")))
