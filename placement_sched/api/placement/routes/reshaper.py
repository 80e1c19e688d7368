"""The reshaper: inventories and allocations move between providers in one request."""

from placement_sched.api.call import Answer, Call
from placement_sched.api.placement import phrases
from placement_sched.api.placement.microversions import RESHAPER
from placement_sched.api.placement.routes.allocations import claims_of
from placement_sched.api.placement.routes.inventories import inventory_from, refuse_unknown
from placement_sched.api.placement.schemas import reshaper as schemas
from placement_sched.api.route import Route
from placement_sched.db.connection import Connection
from placement_sched.store import reshape


def post(call: Call) -> Answer:
    """Make providers have, and consumers hold, exactly what the body says: all of it or nothing."""
    stocks = call.body["inventories"]
    claims = claims_of(call, call.body["allocations"])
    generations = {uuid: stock["resource_provider_generation"] for uuid, stock in stocks.items()}
    names = {name for stock in stocks.values() for name in stock["inventories"]}
    allocated = {
        name for claim in claims for amounts in claim.allocations.values() for name in amounts
    }

    def work(connection: Connection) -> None:
        providers = reshape.lock(connection, generations, claims)
        refuse_unknown(connection, names | allocated, "malformed reshaper data")
        # As in OpenStack placement, more may be reserved here than there is: what reports its
        # inventories so has to get through an upgrade, and nothing can be claimed of them.
        wanted = {
            provider.id: [
                inventory_from(name, document)
                for name, document in stocks[uuid]["inventories"].items()
            ]
            for uuid, provider in providers.items()
        }
        reshape.write(connection, wanted, claims, call.now())

    with phrases.update_conflict():
        call.services.database.write(work)
    return Answer(status=204)


ROUTES: tuple[Route, ...] = (
    Route(
        method="POST",
        path="/reshaper",
        handler=post,
        policy="placement:reshaper:reshape",
        since=RESHAPER,
        body=schemas.POST,
        statuses=(204, 400, 401, 403, 404, 409, 415),
    ),
)
