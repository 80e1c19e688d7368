"""POST /select_destinations places instances; POST /explain shows how it would, and why."""

from placement_sched.api.blueprint import Blueprint
from placement_sched.api.call import Answer, Call
from placement_sched.api.scheduler import placing

blueprint = Blueprint("select_destinations", __name__)

_POLICY = "scheduler:select_destinations"


@blueprint.post(
    "/v1/select_destinations", policy=_POLICY, body=placing.SELECT, refusals=(404, 409, 500)
)
def select(call: Call) -> Answer:
    """Return the hosts chosen for the request spec, allocated unless ``claim`` is false."""
    placing.check_policy_hint(call)
    return Answer(body=placing.select(call.services.scheduler, call.body, call.ids))


@blueprint.post(
    "/v1/explain", policy="scheduler:explain", body=placing.EXPLAIN, refusals=(404, 500)
)
def explain(call: Call) -> Answer:
    """Return the funnel of a request and the hosts it would get; nothing is claimed."""
    placing.check_policy_hint(call)
    return Answer(body=placing.explain(call.services.scheduler, call.body))
