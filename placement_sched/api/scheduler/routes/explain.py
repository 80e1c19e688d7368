"""POST /explain: tell how a request would fare, and why."""

from placement_sched.api.call import Answer, Call
from placement_sched.api.route import Route
from placement_sched.api.scheduler import hints, placing
from placement_sched.api.scheduler.schemas import explain as schemas


def explain(call: Call) -> Answer:
    """Return the funnel of a request and the hosts it would get; nothing is claimed."""
    hints.check(call)
    return Answer(body=placing.explain(call.services.scheduler, call.body))


ROUTES = (
    Route(
        method="POST",
        path="/v1/explain",
        handler=explain,
        policy="scheduler:explain",
        body=schemas.POST,
        statuses=(200, 400, 403, 404, 500, 503),
    ),
)
