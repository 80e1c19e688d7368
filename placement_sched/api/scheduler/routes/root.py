"""What the scheduler API serves."""

from placement_sched.api.call import Answer, Call
from placement_sched.api.route import Route

_RESOURCES = ("compute_nodes", "instances", "select_destinations", "explain", "policies")


def show(call: Call) -> Answer:
    """Return the resources and where they are."""
    links = {name: f"{call.base}/v1/{name}" for name in _RESOURCES}
    return Answer(body={"id": "v1", "status": "CURRENT", "resources": links})


ROUTES = tuple(
    Route(
        method="GET",
        path=path,
        handler=show,
        policy="scheduler:root:show",
        statuses=(200, 401, 406),
    )
    for path in ("/", "/v1", "/v1/")
)
