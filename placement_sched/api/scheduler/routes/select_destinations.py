"""POST /select_destinations: place instances."""

from placement_sched.api.call import Answer, Call
from placement_sched.api.route import Route
from placement_sched.api.scheduler.schemas import select_destinations as schemas


def select(call: Call) -> Answer:
    """Return the hosts chosen for the request spec, allocated unless ``claim`` is false."""
    body = call.body
    return Answer(
        body=call.services.scheduler.select_destinations(
            body["request_spec"],
            alternates=body.get("return_alternates", False),
            claiming=body.get("claim", True),
        )
    )


ROUTES = (
    Route(
        method="POST",
        path="/v1/select_destinations",
        handler=select,
        policy="scheduler:select_destinations",
        body=schemas.POST,
        statuses=(200, 400, 404, 409, 500, 503),
    ),
)
