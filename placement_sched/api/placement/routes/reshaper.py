"""The reshaper: inventories and allocations move between providers in one request."""

from placement_sched.api.blueprint import Blueprint
from placement_sched.api.call import Answer, Call, in_transaction
from placement_sched.api.placement import conventions as shared
from placement_sched.api.placement import microversions as mv
from placement_sched.api.placement.routes import allocations
from placement_sched.api.placement.routes.inventories import (
    BY_CLASS,
    inventory_from,
    refuse_unknown,
)
from placement_sched.api.validation import Schemas
from placement_sched.db.transaction import Connection
from placement_sched.errors import Invalid
from placement_sched.limits import MAX_RESHAPER_CONSUMERS, MAX_RESHAPER_INVENTORIES
from placement_sched.model.document import Json
from placement_sched.model.names import LIKE_UUID
from placement_sched.store.placement import reshape

blueprint = Blueprint("reshaper", __name__)


_INVENTORIES = shared.keyed(
    LIKE_UUID,
    shared.record(resource_provider_generation=shared.INTEGER, inventories=BY_CLASS),
    minProperties=1,
    maxProperties=MAX_RESHAPER_INVENTORIES,
)

# A reshape may move inventories alone.
_CONSUMERS = {"minProperties": 0, "maxProperties": MAX_RESHAPER_CONSUMERS}
POST = Schemas(
    *(
        (since, shared.record(inventories=_INVENTORIES, allocations={**claims, **_CONSUMERS}))
        for since, claims in allocations.BY_CONSUMER.items()
    )
)


@blueprint.post(
    "/reshaper",
    policy="placement:reshaper:reshape",
    since=mv.RESHAPER,
    body=POST,
    takes_many=True,
    success=(204,),
    refusals=(404, 409),
)
@shared.update_conflict()
@in_transaction
def post(call: Call, connection: Connection) -> Answer:
    """Make providers have, and consumers hold, exactly what the body says: all of it or nothing."""
    stocks = call.body["inventories"]
    _refuse_too_many(stocks)
    allocations.refuse_too_many(call.body["allocations"].values(), "$.allocations")
    claims = allocations.claims_of(call, call.body["allocations"])
    generations = {uuid: stock["resource_provider_generation"] for uuid, stock in stocks.items()}
    names = {name for stock in stocks.values() for name in stock["inventories"]}
    allocated = {
        name for claim in claims for amounts in claim.allocations.values() for name in amounts
    }
    providers = reshape.lock(connection, generations, claims)
    refuse_unknown(connection, names | allocated, "malformed reshaper data")
    # As in OpenStack placement, more may be reserved here than there is: what reports its
    # inventories so has to get through an upgrade, and nothing can be claimed of them.
    wanted = {
        provider.id: [
            inventory_from(name, document) for name, document in stocks[uuid]["inventories"].items()
        ]
        for uuid, provider in providers.items()
    }
    reshape.write(connection, wanted, claims, call.now())
    return Answer(status=204)


def _refuse_too_many(stocks: Json) -> None:
    number = sum(len(stock["inventories"]) for stock in stocks.values())
    if number > MAX_RESHAPER_INVENTORIES:
        raise Invalid(
            f"JSON does not validate: $.inventories: the providers have {number} inventories, and "
            f"one request may name {MAX_RESHAPER_INVENTORIES} at most."
        )
