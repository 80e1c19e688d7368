"""Routes of hosts: the whole cloud in one answer, and one host whole.

GET /aggregate_check says what is wrong with the aggregates that reserve hosts by traits.
"""

from collections.abc import Iterable

from placement_sched.api.blueprint import Blueprint
from placement_sched.api.call import Answer, Call
from placement_sched.api.paging import limit_and_marker, page
from placement_sched.api.validation import Schemas
from placement_sched.model.document import Json
from placement_sched.operations.aggregate_check import check_aggregates
from placement_sched.scheduler.host_views import STATES, HostsAsked, all_shown, one_shown
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.schemas.parts import NAME, PAGING, an_object

blueprint = Blueprint("hosts", __name__)

_POLICY = "scheduler:hosts"
#: Of what is repeated of these, the last one counts.
_LAST_COUNTS = ("host", "search", "zone", "aggregate")

LIST = Schemas(
    an_object(
        dict.fromkeys((*_LAST_COUNTS, "trait"), NAME)
        | {"state": {"type": "string", "enum": list(STATES)}}
        | PAGING
    )
)


@blueprint.get("/v1/hosts", policy=f"{_POLICY}:list", query=LIST)
def index(call: Call) -> Answer:
    """List hosts with state, zone, policy, aggregates, traits and sums of their resources."""
    limit, marker = limit_and_marker(call)
    found = listed(call.services.scheduler, call.query, limit=limit, marker=marker)
    return Answer(body=found | page(call, "hosts", found["hosts"]).body)


def listed(
    scheduler: Scheduler,
    query: Iterable[tuple[str, str]],
    *,
    limit: int | None = None,
    marker: str | None = None,
) -> Json:
    """Return the hosts that the pairs of a query string ask for; a page of them if asked."""
    pairs = list(query)
    asked = HostsAsked(
        **{name: value for name, value in pairs if name in _LAST_COUNTS},
        states=[value for name, value in pairs if name == "state"],
        traits=[value for name, value in pairs if name == "trait"],
        marker=marker,
        limit=limit,
    )
    return all_shown(scheduler, asked)


@blueprint.get("/v1/hosts/<path:host>", policy=f"{_POLICY}:show")
def show(call: Call, host: str) -> Answer:
    """Return one host with all that is known of it."""
    return Answer(body=one_shown(call.services.scheduler, host))


@blueprint.get("/v1/aggregate_check", policy="scheduler:aggregate_check")
def check(call: Call) -> Answer:
    """Return who may use aggregates that are reserved by traits, and what is wrong."""
    scheduler = call.services.scheduler
    with scheduler.database.read() as connection:
        found = check_aggregates(connection, scheduler.live.settings())
    return Answer(body=found.as_json())
