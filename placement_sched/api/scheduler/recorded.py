"""Queries and bodies about recorded decisions, for the routes and the command line."""

from collections.abc import Mapping

from placement_sched.api.validation import Schemas
from placement_sched.limits import MAX_PAGE
from placement_sched.model import decision as model
from placement_sched.model.document import Json
from placement_sched.model.explanation import View
from placement_sched.scheduler.decision_views import (
    NOW,
    THEN,
    decisions_wanted,
    refusing,
    replay,
    shown,
    summary_of,
    unknown_names,
)
from placement_sched.scheduler.policies.registry import policies_for
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.schemas.formats import read, usual_uuid, uuid
from placement_sched.schemas.parts import AMOUNT, NAME, PAGING, UUID, an_object
from placement_sched.store import decisions

_TIME: Json = {"type": "string"}
_FILTERS: Json = {
    "outcome": {"enum": [model.NO_VALID_HOST, model.SELECTED]},
    "kind": {"enum": [model.SELECT, model.NO_CLAIM, model.EXPLAIN, model.SHADOW]},
    **dict.fromkeys(("policy", "flavor", "project_id", "host", "refused"), NAME),
    **dict.fromkeys(("request_id", "global_request_id"), NAME),
    "instance": UUID,
    **dict.fromkeys(("since", "until"), _TIME),
}
LIST = Schemas(an_object({**_FILTERS, **PAGING}))
REPLAY = Schemas(an_object({"settings": {"enum": [NOW, THEN]}, "max_rejected": AMOUNT}))


def listed(scheduler: Scheduler, asked: Mapping[str, str]) -> Json:
    """Return decisions, the newest first; ``next`` is the marker of the page after, or None.

    With ``refused``, they are those that are known to have rejected this host. Where there is none,
    ``warnings`` say which name that was asked for there is not.
    """
    wanted = decisions_wanted(asked)
    limit = min(int(asked.get("limit") or MAX_PAGE), MAX_PAGE)
    marker = asked.get("marker")
    marker = None if marker is None else read(uuid, marker, "marker")
    with scheduler.database.read() as connection:
        if (host := asked.get("refused")) is not None:
            page = refusing(connection, wanted, host, marker=marker, limit=limit).as_json()
        else:
            found = decisions.search(connection, wanted, marker=marker, limit=limit)
            following = found[-1].uuid if len(found) == limit else None
            page = {"decisions": [summary_of(one) for one in found], "next": following}
        if not page["decisions"] and page["next"] is None and marker is None:
            policies = policies_for(scheduler.live.settings(), scheduler.clock)
            if warnings := unknown_names(connection, asked, policies):
                page["warnings"] = warnings
    return page


def one_shown(scheduler: Scheduler, uuid: str) -> Json:
    """Return a decision; raise :class:`NotFound` where there is none of this uuid."""
    with scheduler.database.read() as connection:
        return shown(decisions.by_uuid(connection, usual_uuid(uuid)))


def replayed(scheduler: Scheduler, uuid: str, body: Json) -> Json:
    """Return a decision, how its request fares now, and what differs."""
    with scheduler.database.read() as connection:
        decision = decisions.by_uuid(connection, usual_uuid(uuid))
    view = View(max_rejected=body.get("max_rejected", View().max_rejected))
    return replay(scheduler, decision, settings=body.get("settings", NOW), view=view)
