"""POST /plan says what changes of the cloud come to; POST /rebalance advises on moves."""

from placement_sched.api.blueprint import Blueprint
from placement_sched.api.call import Answer, Call
from placement_sched.api.scheduler import planning

blueprint = Blueprint("plan", __name__)


@blueprint.post("/v1/plan", policy="scheduler:plan", body=planning.PLAN, refusals=(404, 500))
def plan(call: Call) -> Answer:
    """Return the moves that changes of the cloud make necessary; nothing is changed."""
    return Answer(body=planning.plan(call.services.scheduler, call.body))


@blueprint.post(
    "/v1/rebalance", policy="scheduler:rebalance", body=planning.REBALANCE, refusals=(404, 500)
)
def rebalance(call: Call) -> Answer:
    """Return moves that make room, empty hosts or even out their load; nothing is moved."""
    return Answer(body=planning.rebalance(call.services.scheduler, call.body))
