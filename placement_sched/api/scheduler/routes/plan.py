"""POST /plan says what changes of the cloud come to; POST /rebalance advises on moves.

Both are dry: what they try is undone before they answer. A request to make room for may name a
scheduling policy, as one to be placed may.
"""

from placement_sched.api.blueprint import Blueprint
from placement_sched.api.call import Answer, Call
from placement_sched.api.scheduler import request_schema
from placement_sched.model.aggregates import POLICY_KEY

blueprint = Blueprint("plan", __name__)


@blueprint.post("/v1/plan", policy="scheduler:plan", body=request_schema.PLAN, refusals=(404, 500))
def plan(call: Call) -> Answer:
    """Return the moves that changes of the cloud make necessary; nothing is changed.

    Changes are for those who may see hosts and instances of every project: the rule is one of
    operators, as for explanations.
    """
    return Answer(body=request_schema.plan(call.services.scheduler, call.body))


@blueprint.post(
    "/v1/rebalance",
    policy="scheduler:rebalance",
    body=request_schema.REBALANCE,
    refusals=(404, 500),
)
def rebalance(call: Call) -> Answer:
    """Return moves that make room, empty hosts or even out their load; nothing is moved.

    It shows instances of every project, as plans do.
    """
    _check_policy_hint(call)
    return Answer(body=request_schema.rebalance(call.services.scheduler, call.body))


def _check_policy_hint(call: Call) -> None:
    """Raise :class:`Forbidden` where the body names a scheduling policy and the caller may not."""
    spec = call.body.get("request_spec") or {}
    hints = spec.get("scheduler_hints") or {}
    if POLICY_KEY in hints:
        call.check("scheduler:policies:hint")
