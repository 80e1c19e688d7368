"""The JSON bodies of plans, for the route and the command line."""

from placement_sched.api.schema import Schemas
from placement_sched.model.document import Json, with_whole_numbers
from placement_sched.scheduler.pipeline import Scheduler
from placement_sched.scheduler.what_if.changes import changes_from
from placement_sched.scheduler.what_if.plan import planned
from placement_sched.schemas.changes import CHANGES
from placement_sched.schemas.parts import NAME, a_list, an_object, or_null

#: So many flavors a plan may count the capacity for.
_MOST_FLAVORS = 1000
_PLANNING: Json = {"changes": CHANGES, "flavors": or_null(a_list(NAME, maxItems=_MOST_FLAVORS))}
PLAN = Schemas(an_object(_PLANNING, "changes"))


def plan(scheduler: Scheduler, body: Json) -> Json:
    """Return what the changes come to, and where instances would have to move."""
    body = with_whole_numbers(body)
    return planned(scheduler, changes_from(body["changes"])).as_json()
