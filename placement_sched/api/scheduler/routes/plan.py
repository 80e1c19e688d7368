"""POST /plan says what changes of the cloud come to, and which instances would move where."""

from placement_sched.api.blueprint import Blueprint
from placement_sched.api.call import Answer, Call
from placement_sched.api.scheduler import planning

blueprint = Blueprint("plan", __name__)


@blueprint.post("/v1/plan", policy="scheduler:plan", body=planning.PLAN, refusals=(404, 500))
def plan(call: Call) -> Answer:
    """Return the moves that changes of the cloud make necessary; nothing is changed."""
    return Answer(body=planning.plan(call.services.scheduler, call.body))
