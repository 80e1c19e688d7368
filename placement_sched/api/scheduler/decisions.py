# SPDX-License-Identifier: Apache-2.0
"""Routes of decisions."""

from placement_sched.api.paging import parse_page, with_next_link
from placement_sched.api.routing import ApiCall, ApiResponse, Blueprint
from placement_sched.api.scheduler import decision_views, responses
from placement_sched.api.scheduler.decision_views import CURRENT_SETTINGS, RECORDED_SETTINGS
from placement_sched.api.validation import Schemas
from placement_sched.explain.values import ExplanationView
from placement_sched.model import decision as model
from placement_sched.model.document import Json
from placement_sched.schemas.formats import normalize_uuid
from placement_sched.schemas.parts import AMOUNT, NAME, PAGING, UUID, build_object_schema
from placement_sched.store import decisions
from placement_sched.store.compute import instances

blueprint = Blueprint("decisions", __name__)

_DECISIONS = "/v1/decisions"
_DECISION = "/v1/decisions/<uuid>"
_POLICY = "scheduler:decisions"

_TIME: Json = {"type": "string"}
_FILTERS: Json = {
    "outcome": {"enum": [model.NO_VALID_HOST, model.SELECTED]},
    "kind": {"enum": list(model.KINDS)},
    **dict.fromkeys(("policy", "flavor", "stage", "project_id", "host", "rejected"), NAME),
    "reason": {**NAME, "maxLength": 320},  # kind:subject, with columns of 64 and 255 characters
    **dict.fromkeys(("request_id", "global_request_id"), NAME),
    "instance": UUID,
    **dict.fromkeys(("since", "until"), _TIME),
}
COUNT = Schemas(
    build_object_schema({name: part for name, part in _FILTERS.items() if name != "rejected"})
)
LIST = Schemas(build_object_schema({**_FILTERS, **PAGING}))
REPLAY = Schemas(
    build_object_schema(
        {"settings": {"enum": [CURRENT_SETTINGS, RECORDED_SETTINGS]}, "max_rejected": AMOUNT}
    )
)


@blueprint.get(_DECISIONS, policy=f"{_POLICY}:list", query=LIST, response=responses.LIST_DECISIONS)
def index(call: ApiCall) -> ApiResponse:
    """List decisions, newest first, page by page.

    ``rejected`` selects decisions that rejected this host: a page may have fewer entries than the
    limit although another page follows. If no decision matches, ``warnings`` names the filter
    values that do not exist.
    """
    query, scheduler = dict(call.query), call.services.scheduler
    filters = decision_views.read_query(query)
    limit, marker = parse_page(query)
    with scheduler.database.read() as connection:
        if (host := query.get("rejected")) is not None:
            page = decision_views.find_rejecting_decisions(
                connection, filters, host, marker=marker, limit=limit
            )
        else:
            rows = decisions.search(connection, filters, marker=marker, limit=limit)
            page = {
                "decisions": [decision_views.summarize_decision(row) for row in rows],
                "next": rows[-1].uuid if len(rows) == limit else None,
            }
        if not page["decisions"] and page["next"] is None and marker is None:
            policies = call.get_policies()
            if warnings := list(decision_views.find_unknown_names(connection, query, policies)):
                page["warnings"] = warnings
        places = [place for entry in page["decisions"] for place in entry["instances"]]
        uuids = {place["uuid"] for place in places}
        names = instances.map_display_names(connection, uuids) if uuids else {}
    for place in places:
        place["name"] = names.get(place["uuid"])
    return with_next_link(call, _DECISIONS, page)


@blueprint.get(
    "/v1/decision_counts", policy=f"{_POLICY}:list", query=COUNT, response=responses.DECISION_COUNTS
)
def count(call: ApiCall) -> ApiResponse:
    """Count decisions by outcome, by their most frequent values and by time."""
    filters = decision_views.read_query(dict(call.query))
    return ApiResponse(body=call.read(decision_views.count_decisions, filters, call.read_clock()))


@blueprint.get(_DECISION, policy=f"{_POLICY}:show", response=responses.SHOW_DECISION)
def show(call: ApiCall, uuid: str) -> ApiResponse:
    """Show a decision with its request and funnel."""
    decision = call.read(decisions.get_by_uuid, normalize_uuid(uuid))
    return ApiResponse(body=decision_views.build_decision_view(decision))


@blueprint.post(
    f"{_DECISION}/replay",
    policy=f"{_POLICY}:replay",
    body=REPLAY,
    errors=(404, 500),
    response=responses.REPLAY,
)
def replay(call: ApiCall, uuid: str) -> ApiResponse:
    """Evaluate the request of a decision again and return the differences."""
    decision = call.read(decisions.get_by_uuid, normalize_uuid(uuid))
    settings = call.body.get("settings", CURRENT_SETTINGS)
    max_rejected = call.body.get("max_rejected", ExplanationView().max_rejected)
    body = decision_views.replay(
        call.services.scheduler,
        decision,
        settings=settings,
        view=ExplanationView(max_rejected=max_rejected),
    )
    return ApiResponse(body=body)
