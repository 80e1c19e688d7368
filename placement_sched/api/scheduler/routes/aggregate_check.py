"""GET /aggregate_check: what is wrong with aggregates that are reserved by traits.

``placement-sched aggregate check`` prints the same.
"""

from placement_sched.api.blueprint import Blueprint
from placement_sched.api.call import Answer, Call
from placement_sched.operations.aggregate_check import check_aggregates

blueprint = Blueprint("aggregate_check", __name__)


@blueprint.get("/v1/aggregate_check", policy="scheduler:aggregate_check")
def show(call: Call) -> Answer:
    """Return who may use which aggregates that are reserved by traits, and what is wrong."""
    scheduler = call.services.scheduler
    with scheduler.database.read() as connection:
        check = check_aggregates(connection, scheduler.live.settings())
    return Answer(body=check.as_json())
