# SPDX-License-Identifier: Apache-2.0
"""Schemas and views of recorded decisions, for the routes and the command line."""

from collections.abc import Mapping

from placement_sched.api.validation import Schemas
from placement_sched.limits import MAX_PAGE
from placement_sched.model import decision as model
from placement_sched.model.document import Json
from placement_sched.model.explanation import ExplanationView
from placement_sched.scheduler.decision_views import (
    NOW,
    THEN,
    decision_view,
    find_rejecting_decisions,
    find_unknown_names,
    read_query,
    replay,
    summary_of,
)
from placement_sched.scheduler.policies.registry import policies_for
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.schemas.formats import read, usual_uuid, uuid
from placement_sched.schemas.parts import AMOUNT, NAME, PAGING, UUID, object_schema
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
LIST = Schemas(object_schema({**_FILTERS, **PAGING}))
REPLAY = Schemas(object_schema({"settings": {"enum": [NOW, THEN]}, "max_rejected": AMOUNT}))


def list_decisions(scheduler: Scheduler, query: Mapping[str, str]) -> Json:
    """List decisions, newest first. ``next`` is the marker of the next page, or None.

    With ``refused``, only decisions that rejected this host are listed. If there are none,
    ``warnings`` names the filter values that do not exist.
    """
    filters = read_query(query)
    limit = min(int(query.get("limit") or MAX_PAGE), MAX_PAGE)
    marker = query.get("marker")
    marker = None if marker is None else read(uuid, marker, "marker")
    with scheduler.database.read() as connection:
        if (host := query.get("refused")) is not None:
            page = find_rejecting_decisions(
                connection, filters, host, marker=marker, limit=limit
            ).as_json()
        else:
            rows = decisions.search(connection, filters, marker=marker, limit=limit)
            next_marker = rows[-1].uuid if len(rows) == limit else None
            page = {"decisions": [summary_of(row) for row in rows], "next": next_marker}
        if not page["decisions"] and page["next"] is None and marker is None:
            policies = policies_for(scheduler.live.settings(), scheduler.clock)
            if warnings := find_unknown_names(connection, query, policies):
                page["warnings"] = warnings
    return page


def show_decision(scheduler: Scheduler, uuid: str) -> Json:
    """Return a decision. Raises :class:`NotFound` if it does not exist."""
    with scheduler.database.read() as connection:
        return decision_view(decisions.by_uuid(connection, usual_uuid(uuid)))


def replay_decision(scheduler: Scheduler, uuid: str, body: Json) -> Json:
    """Return a decision, the result of its request today and the differences."""
    with scheduler.database.read() as connection:
        decision = decisions.by_uuid(connection, usual_uuid(uuid))
    view = ExplanationView(max_rejected=body.get("max_rejected", ExplanationView().max_rejected))
    return replay(scheduler, decision, settings=body.get("settings", NOW), view=view)
