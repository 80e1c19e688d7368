"""What the scheduler API serves."""

from collections.abc import Iterable

from placement_sched.api.call import Answer, Call
from placement_sched.api.route import Route


def routes_above(routes: Iterable[Route]) -> tuple[Route, ...]:
    """Return the routes of the document that lists the resources of ``routes``."""
    # The first part of a path below /v1/ is a resource.
    resources = tuple(dict.fromkeys(route.path.split("/")[2] for route in routes))

    def show(call: Call) -> Answer:
        """Return the resources and where they are."""
        links = {name: f"{call.base}/v1/{name}" for name in resources}
        return Answer(body={"id": "v1", "status": "CURRENT", "resources": links})

    return tuple(
        Route(
            method="GET",
            path=path,
            handler=show,
            policy="scheduler:root:show",
            statuses=(200, 401, 406),
        )
        for path in ("/", "/v1", "/v1/")
    )
