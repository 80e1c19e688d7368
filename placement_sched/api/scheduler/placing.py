"""Requests to place and to explain, as their JSON bodies ask the scheduler.

The routes and the command line without a server come in here alike, with a body of its schema.
"""

from typing import Any

from placement_sched.model.report import View
from placement_sched.model.request_ids import NO_REQUEST, RequestIds
from placement_sched.model.whole_numbers import with_whole_numbers
from placement_sched.scheduler.service import Scheduler

Json = dict[str, Any]


def select(scheduler: Scheduler, body: Json, ids: RequestIds = NO_REQUEST) -> Json:
    """Return the hosts chosen for the request spec, allocated unless ``claim`` is false."""
    body = with_whole_numbers(body)
    return scheduler.select_destinations(
        body["request_spec"],
        alternates=body.get("return_alternates", False),
        claiming=body.get("claim", True),
        ids=ids,
    )


def explain(scheduler: Scheduler, body: Json) -> Json:
    """Return the funnel of a request and the hosts it would get; nothing is claimed."""
    body = with_whole_numbers(body)
    hosts = body.get("hosts")
    return scheduler.explain(
        body["request_spec"],
        overrides=body.get("overrides") or {},
        view=View(
            hosts=None if hosts is None else tuple(hosts),
            max_rejected=body.get("max_rejected", View().max_rejected),
        ),
        alternates=body.get("return_alternates", False),
        policy=body.get("policy"),
    )
