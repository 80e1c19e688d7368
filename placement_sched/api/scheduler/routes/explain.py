"""POST /explain: tell how a request would fare, and why."""

from placement_sched.api.call import Answer, Call
from placement_sched.api.route import Route
from placement_sched.api.scheduler.schemas import explain as schemas
from placement_sched.model.report import View


def explain(call: Call) -> Answer:
    """Return the funnel of a request and the hosts it would get; nothing is claimed."""
    body = call.body
    hosts = body.get("hosts")
    return Answer(
        body=call.services.scheduler.explain(
            body["request_spec"],
            overrides=body.get("overrides") or {},
            view=View(
                hosts=None if hosts is None else frozenset(hosts),
                max_rejected=body.get("max_rejected", View().max_rejected),
            ),
            alternates=body.get("return_alternates", False),
        )
    )


ROUTES = (
    Route(
        method="POST",
        path="/v1/explain",
        handler=explain,
        policy="scheduler:explain",
        body=schemas.POST,
        statuses=(200, 400, 404, 500, 503),
    ),
)
