"""Routes of decisions: what was asked, how it went, what was chosen."""

from typing import Any

from placement_sched.api.addressed import usual
from placement_sched.api.call import Answer, Call
from placement_sched.api.route import Route
from placement_sched.api.scheduler.paging import limit_and_marker, page
from placement_sched.api.scheduler.schemas import decisions as schemas
from placement_sched.model import shape
from placement_sched.model.decision import Decision, DecisionsWanted
from placement_sched.store import decisions


def index(call: Call) -> Answer:
    """Return the decisions, those wanted if asked, the newest first and by page."""
    limit, marker = limit_and_marker(call)
    policy = call.value("policy")
    instance, since = call.value("instance"), call.value("since")
    wanted = DecisionsWanted(
        outcome=call.value("outcome"),
        kind=call.value("kind"),
        policy=None if policy is None else policy.lower(),  # as the names of sections are
        flavor=call.value("flavor"),
        project_id=call.value("project_id"),
        instance=None if instance is None else shape.read(shape.uuid, instance, "instance"),
        host=call.value("host"),
        request_id=call.value("request_id"),
        global_request_id=call.value("global_request_id"),
        since=None if since is None else shape.read(shape.moment, since, "since"),
    )
    with call.services.database.read() as connection:
        found = decisions.search(connection, wanted, marker=marker, limit=limit)
    return page(call, "decisions", [_summary(decision) for decision in found])


def show(call: Call, uuid: str) -> Answer:
    """Return one decision, whole."""
    with call.services.database.read() as connection:
        decision = decisions.by_uuid(connection, usual(uuid))
    return Answer(
        body={
            **_summary(decision),
            "request": decision.request,
            "funnel": decision.funnel,
            "selections": decision.answer["selections"],
        }
    )


def _summary(decision: Decision) -> dict[str, Any]:
    return {
        "uuid": decision.uuid,
        "outcome": decision.outcome,
        "kind": decision.kind,
        "policy": decision.answer["policy"],
        "flavor": decision.flavor,
        "project_id": decision.project_id,
        "request_id": decision.request_ids.request_id,
        "global_request_id": decision.request_ids.global_request_id,
        "created_at": decision.created_at,
        "instances": [{"uuid": place.instance, "host": place.host} for place in decision.places],
    }


_ALL = "/v1/decisions"
_ONE = "/v1/decisions/<uuid>"
_POLICY = "scheduler:decisions"

ROUTES = (
    Route(
        method="GET",
        path=_ALL,
        handler=index,
        policy=f"{_POLICY}:list",
        query=schemas.LIST,
        statuses=(200, 400, 401, 403, 406),
    ),
    Route(
        method="GET",
        path=_ONE,
        handler=show,
        policy=f"{_POLICY}:show",
        statuses=(200, 401, 403, 404, 406),
    ),
)
