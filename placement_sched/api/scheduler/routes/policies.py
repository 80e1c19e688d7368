"""Routes of scheduling policies and their options."""

from placement_sched.api.blueprint import Blueprint
from placement_sched.api.call import Answer, Call

blueprint = Blueprint("policies", __name__)

_ALL = "/v1/policies"
_ONE = "/v1/policies/<name>"
_POLICY = "scheduler:policies"


@blueprint.get(_ALL, policy=f"{_POLICY}:list")
def index(call: Call) -> Answer:
    """List all policies, the default one first."""
    return Answer(body={"policies": call.services.scheduler.policies()})


@blueprint.get(_ONE, policy=f"{_POLICY}:show")
def show(call: Call, name: str) -> Answer:
    """Return one policy."""
    return Answer(body=call.services.scheduler.policy(name))
