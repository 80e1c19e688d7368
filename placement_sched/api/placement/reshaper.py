# SPDX-License-Identifier: Apache-2.0
"""Route of the reshaper, which replaces inventories and allocations."""

from placement_sched.api import placement
from placement_sched.api.placement import allocations
from placement_sched.api.placement import microversions as mv
from placement_sched.api.placement.inventories import (
    BY_CLASS,
    read_inventory,
    reject_unknown_resource_classes,
)
from placement_sched.api.routing import ApiCall, ApiResponse, Blueprint, run_in_transaction
from placement_sched.api.validation import Schemas
from placement_sched.db.transaction import Connection
from placement_sched.errors import Invalid
from placement_sched.limits import MAX_RESHAPER_CONSUMERS, MAX_RESHAPER_INVENTORIES
from placement_sched.model.names import LIKE_UUID
from placement_sched.store.placement.allocations import lock_reshape, reshape

blueprint = Blueprint("reshaper", __name__)


_INVENTORIES = placement.build_strict_map(
    LIKE_UUID,
    placement.build_strict_object(
        resource_provider_generation=placement.INTEGER, inventories=BY_CLASS
    ),
    minProperties=1,
    maxProperties=MAX_RESHAPER_INVENTORIES,
)

# A reshape may have no allocations.
_CONSUMERS = {"minProperties": 0, "maxProperties": MAX_RESHAPER_CONSUMERS}
_ALLOCATIONS = {
    since: {**claims, **_CONSUMERS} for since, claims in allocations.BY_CONSUMER.items()
}
POST = Schemas(
    *(
        (since, placement.build_strict_object(inventories=_INVENTORIES, allocations=claims))
        for since, claims in _ALLOCATIONS.items()
    )
)


@blueprint.post(
    "/reshaper",
    policy="placement:reshaper:reshape",
    since=mv.RESHAPER,
    body=POST,
    takes_many=True,
    success=(204,),
    errors=(404, 409),
)
@placement.add_update_conflict_prefix()
@run_in_transaction
def post(call: ApiCall, connection: Connection) -> ApiResponse:
    """Replace inventories and allocations of several providers atomically."""
    entries = call.body["inventories"]
    number = sum(len(entry["inventories"]) for entry in entries.values())
    if number > MAX_RESHAPER_INVENTORIES:
        raise Invalid(
            f"JSON does not validate: $.inventories: the providers have {number} inventories, "
            f"which exceeds the limit of {MAX_RESHAPER_INVENTORIES} per request."
        )
    allocations.reject_too_many(call.body["allocations"].values(), "$.allocations")
    claims = allocations.parse_claims(call, call.body["allocations"])
    generations = {uuid: entry["resource_provider_generation"] for uuid, entry in entries.items()}
    names = {name for entry in entries.values() for name in entry["inventories"]}
    allocated = {
        name for claim in claims for amounts in claim.allocations.values() for name in amounts
    }
    providers = lock_reshape(connection, generations, claims)
    reject_unknown_resource_classes(connection, names | allocated, "malformed reshaper data")
    # As in OpenStack placement, the reserved amount may exceed the total, so that the reshape of
    # an upgrade does not fail on such an inventory. Nothing can be claimed from it.
    inventories = {
        provider.id: [
            read_inventory(name, document)
            for name, document in entries[uuid]["inventories"].items()
        ]
        for uuid, provider in providers.items()
    }
    reshape(connection, inventories, claims, call.read_clock())
    return ApiResponse(status=204)
