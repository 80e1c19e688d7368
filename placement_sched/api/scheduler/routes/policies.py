"""Routes of scheduler policies: what requests may come under, and with which options."""

from placement_sched.api.call import Answer, Call
from placement_sched.api.route import Route


def index(call: Call) -> Answer:
    """Return every policy, the default one first."""
    return Answer(body={"policies": call.services.scheduler.policies()})


def show(call: Call, name: str) -> Answer:
    """Return one policy."""
    return Answer(body=call.services.scheduler.policy(name))


_ALL = "/v1/policies"
_ONE = "/v1/policies/<name>"
_POLICY = "scheduler:policies"

ROUTES = (
    Route(
        method="GET",
        path=_ALL,
        handler=index,
        policy=f"{_POLICY}:list",
        statuses=(200, 401, 403, 406),
    ),
    Route(
        method="GET",
        path=_ONE,
        handler=show,
        policy=f"{_POLICY}:show",
        statuses=(200, 401, 403, 404, 406),
    ),
)
