"""The JSON bodies of plans and of advice on moves, for the routes and the command line."""

from placement_sched.api.scheduler.placing import OVERRIDES
from placement_sched.api.scheduler.request_spec import REQUEST_SPEC
from placement_sched.api.schema import Schemas
from placement_sched.errors import Invalid
from placement_sched.limits import MAX_CAPACITY_FLAVORS, MAX_MOVES
from placement_sched.model.document import Json, with_whole_numbers
from placement_sched.scheduler.drain_plan import planned
from placement_sched.scheduler.rebalance import FIT, GOALS, advised
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.scheduler.simulation import changes_from
from placement_sched.schemas.changes import CHANGES
from placement_sched.schemas.parts import COUNT, NAME, a_list, an_object, or_null

_PLANNING: Json = {
    "changes": CHANGES,
    "flavors": or_null(a_list(NAME, maxItems=MAX_CAPACITY_FLAVORS)),
    "overrides": OVERRIDES,
}
#: Moves that are searched for if the request does not say.
_MOVES = 5
_REBALANCING: Json = {
    "goal": {"enum": list(GOALS)},
    "request_spec": REQUEST_SPEC,
    "moves": {**COUNT, "maximum": MAX_MOVES},
}
REBALANCE = Schemas(an_object(_REBALANCING, "goal"))
PLAN = Schemas(an_object(_PLANNING, "changes"))


def plan(scheduler: Scheduler, body: Json) -> Json:
    """Return what the changes come to, and where instances would have to move."""
    body = with_whole_numbers(body)
    changes = changes_from(body["changes"])
    overrides = body.get("overrides") or {}
    return planned(scheduler, changes, body.get("flavors"), overrides).as_json()


def rebalance(scheduler: Scheduler, body: Json) -> Json:
    """Return moves towards a goal; nothing is moved."""
    body = with_whole_numbers(body)
    document = body.get("request_spec")
    if (body["goal"] == FIT) is (document is None):
        needed = "needs a request_spec" if document is None else "takes no request_spec"
        raise Invalid(f"the goal {body['goal']} {needed}", at="$.goal")
    return advised(scheduler, body["goal"], document, body.get("moves", _MOVES)).as_json()
