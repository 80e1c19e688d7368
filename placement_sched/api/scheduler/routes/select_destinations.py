"""POST /select_destinations: place instances."""

from placement_sched.api.call import Answer, Call
from placement_sched.api.route import Route
from placement_sched.api.scheduler import hints, placing
from placement_sched.api.scheduler.schemas import select_destinations as schemas


def select(call: Call) -> Answer:
    """Return the hosts chosen for the request spec, allocated unless ``claim`` is false."""
    hints.check(call)
    return Answer(body=placing.select(call.services.scheduler, call.body, call.ids))


ROUTES = (
    Route(
        method="POST",
        path="/v1/select_destinations",
        handler=select,
        policy="scheduler:select_destinations",
        body=schemas.POST,
        statuses=(200, 400, 403, 404, 409, 500, 503),
    ),
)
