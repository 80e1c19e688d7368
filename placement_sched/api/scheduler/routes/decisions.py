"""Routes of decisions: requests, their outcomes and the chosen hosts."""

from placement_sched.api.blueprint import Blueprint
from placement_sched.api.call import Answer, Call
from placement_sched.api.paging import limit_and_marker, page
from placement_sched.api.schema import Schemas
from placement_sched.model.document import Json
from placement_sched.model.results import decision as model
from placement_sched.schemas import formats
from placement_sched.schemas.formats import usual_uuid
from placement_sched.schemas.parts import NAME, PAGING, UUID, an_object
from placement_sched.store import decisions

blueprint = Blueprint("decisions", __name__)

_ALL = "/v1/decisions"
_ONE = "/v1/decisions/<uuid>"
_POLICY = "scheduler:decisions"
_NAMED = ("flavor", "project_id", "host", "request_id", "global_request_id")

_FILTERS: Json = {
    "outcome": {"enum": [model.NO_VALID_HOST, model.SELECTED]},
    "kind": {"enum": [model.SELECT, model.NO_CLAIM, model.EXPLAIN, model.SHADOW]},
    **dict.fromkeys(("policy", *_NAMED), NAME),
    "instance": UUID,
    "since": {"type": "string"},
    **PAGING,
}
LIST = Schemas(an_object(_FILTERS))


@blueprint.get(_ALL, policy=f"{_POLICY}:list", query=LIST)
def index(call: Call) -> Answer:
    """List decisions, the newest first."""
    limit, marker = limit_and_marker(call)
    policy = call.value("policy")
    instance, since = call.value("instance"), call.value("since")
    wanted = model.DecisionsWanted(
        **{name: call.value(name) for name in ("outcome", "kind", *_NAMED)},
        policy=None if policy is None else policy.lower(),  # as the names of sections are
        instance=None if instance is None else formats.read(formats.uuid, instance, "instance"),
        since=None if since is None else formats.read(formats.moment, since, "since"),
    )
    found = call.read(decisions.search, wanted, marker=marker, limit=limit)
    return page(call, "decisions", [_summary(decision) for decision in found])


@blueprint.get(_ONE, policy=f"{_POLICY}:show")
def show(call: Call, uuid: str) -> Answer:
    """Return one decision with its request and funnel."""
    decision = call.read(decisions.by_uuid, usual_uuid(uuid))
    more = {"request": decision.request, "funnel": decision.funnel}
    selections = decision.answer["selections"]
    return Answer(body=_summary(decision) | more | {"selections": selections})


def _summary(decision: model.Decision) -> Json:
    ids, names = decision.request_ids, ("uuid", "outcome", "kind", "flavor", "project_id")
    return {name: getattr(decision, name) for name in (*names, "created_at")} | {
        "policy": decision.answer["policy"],
        "request_id": ids.request_id,
        "global_request_id": ids.global_request_id,
        "instances": [{"uuid": place.instance, "host": place.host} for place in decision.places],
    }
