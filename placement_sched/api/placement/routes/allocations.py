"""Routes of allocations: what consumers hold, and the claims that change it."""

from collections.abc import Mapping, Sequence
from typing import Any

from placement_sched.api.call import Answer, Call
from placement_sched.api.placement.last_modified import latest_change
from placement_sched.api.placement.microversions import (
    ALLOCATIONS_BY_PROVIDER_UUID,
    CONSUMER_GENERATIONS,
    CONSUMER_TYPES,
    POST_ALLOCATIONS,
)
from placement_sched.api.placement.schemas import allocations as schemas
from placement_sched.api.route import Route
from placement_sched.api.schema import is_uuid
from placement_sched.db.connection import Connection
from placement_sched.errors import Invalid, NotFound
from placement_sched.model.allocation import (
    UNCHECKED,
    UNKNOWN_TYPE,
    Allocation,
    ConsumerClaim,
    canonical,
)
from placement_sched.store import allocations, resource_providers


def list_of_consumer(call: Call, consumer_uuid: str) -> Answer:
    """Return what a consumer holds; a consumer nobody knows holds nothing."""
    with call.services.database.read() as connection:
        found = allocations.of_consumers(connection, spellings(consumer_uuid))
    body: dict[str, Any] = {"allocations": _by_provider(found)}
    if found:
        body |= _owner(call, found[0])
    return Answer(body=body, last_modified=latest_change(call, found))


def list_of_provider(call: Call, uuid: str) -> Answer:
    """Return what is allocated of a provider, by consumer."""
    with call.services.database.read() as connection:
        try:
            provider = resource_providers.by_uuid(connection, uuid)
        except NotFound as missing:
            missing.detail = f"Resource provider '{uuid}' not found: {missing.detail}"
            raise
        found = allocations.of_provider(connection, provider.id)
    by_consumer: dict[str, dict[str, Any]] = {}
    for one in found:
        shown = by_consumer.setdefault(one.consumer.uuid, {"resources": {}})
        shown["resources"][one.resource_class] = one.used
        if call.version.has(CONSUMER_GENERATIONS):
            shown["consumer_generation"] = one.consumer.generation
    body = {"allocations": by_consumer, "resource_provider_generation": provider.generation}
    return Answer(body=body, last_modified=latest_change(call, found))


def put(call: Call, consumer_uuid: str) -> Answer:
    """Make a consumer hold exactly what the body says."""
    if not is_uuid(consumer_uuid):
        raise Invalid(f"Malformed consumer_uuid: {consumer_uuid}")
    body = call.body
    if not call.version.has(ALLOCATIONS_BY_PROVIDER_UUID):
        # As OpenStack placement has it, the last of several entries for a provider counts.
        by_provider = {one["resource_provider"]["uuid"]: one for one in body["allocations"]}
        body = {**body, "allocations": by_provider}
    return _replace(call, [claim_of(call, consumer_uuid, body)])


def post(call: Call) -> Answer:
    """Make several consumers hold exactly what the body says: all of it or nothing."""
    return _replace(call, claims_of(call, call.body))


def delete(call: Call, consumer_uuid: str) -> Answer:
    """Free everything that a consumer holds."""

    def work(connection: Connection) -> None:
        if not allocations.remove(connection, spellings(consumer_uuid)):
            raise NotFound(f"No allocations for consumer '{consumer_uuid}'")

    call.services.database.write(work)
    return Answer(status=204)


def claims_of(call: Call, body: Mapping[str, Any]) -> list[ConsumerClaim]:
    """Return the claims of a body that has them by consumer.

    Raises :class:`Invalid` where two spellings name one consumer.
    """
    claims = [claim_of(call, uuid, claim) for uuid, claim in body.items()]
    if len({claim.consumer for claim in claims}) != len(claims):
        raise Invalid("JSON does not validate: the body names a consumer twice.")
    return claims


def claim_of(call: Call, consumer_uuid: str, body: Mapping[str, Any]) -> ConsumerClaim:
    """Return what one consumer shall hold, said as of 1.12 or later.

    Before 1.8 the body names no project and user, before 1.28 no generation, and before 1.38 no
    type; ``mappings`` (from 1.34) say nothing that the write needs.
    """
    incomplete = call.services.settings.placement
    return ConsumerClaim(
        consumer=canonical(consumer_uuid),
        allocations={
            provider: {name: int(amount) for name, amount in asked["resources"].items()}
            for provider, asked in body["allocations"].items()
        },
        project_id=body.get("project_id", incomplete.incomplete_consumer_project_id),
        user_id=body.get("user_id", incomplete.incomplete_consumer_user_id),
        consumer_type=body.get("consumer_type"),
        generation=body.get("consumer_generation", UNCHECKED),
    )


def spellings(consumer_uuid: str) -> Sequence[str]:
    """Return under which uuids allocations of a consumer may be kept.

    OpenStack placement keeps what ``POST /allocations`` names in the caller's spelling.
    """
    return sorted({consumer_uuid, canonical(consumer_uuid)})


def _replace(call: Call, claims: Sequence[ConsumerClaim]) -> Answer:
    def work(connection: Connection) -> None:
        allocations.replace(connection, claims, call.now())

    database = call.services.database
    allocates = any(claim.allocations for claim in claims)
    (database.claim if allocates else database.write)(work)
    return Answer(status=204)


def _by_provider(found: Sequence[Allocation]) -> dict[str, dict[str, Any]]:
    by_provider: dict[str, dict[str, Any]] = {}
    for one in found:
        shown = by_provider.setdefault(
            one.provider_uuid, {"resources": {}, "generation": one.provider_generation}
        )
        shown["resources"][one.resource_class] = one.used
    return by_provider


def _owner(call: Call, held: Allocation) -> dict[str, Any]:
    """Return what an answer tells of the consumer, as far as the version shows it."""
    consumer, incomplete = held.consumer, call.services.settings.placement
    shown: dict[str, Any] = {}
    if call.version.has(ALLOCATIONS_BY_PROVIDER_UUID):
        shown["project_id"] = consumer.project_id or incomplete.incomplete_consumer_project_id
        shown["user_id"] = consumer.user_id or incomplete.incomplete_consumer_user_id
    if call.version.has(CONSUMER_GENERATIONS):
        shown["consumer_generation"] = consumer.generation
    if call.version.has(CONSUMER_TYPES):
        shown["consumer_type"] = consumer.consumer_type or UNKNOWN_TYPE
    return shown


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/allocations/<consumer_uuid>",
        handler=list_of_consumer,
        policy="placement:allocations:list",
        statuses=(200, 401, 403, 406),
        answer=schemas.OF_CONSUMER_ANSWER,
    ),
    Route(
        method="PUT",
        path="/allocations/<consumer_uuid>",
        handler=put,
        policy="placement:allocations:update",
        body=schemas.PUT,
        statuses=(204, 400, 401, 403, 409, 415),
    ),
    Route(
        method="DELETE",
        path="/allocations/<consumer_uuid>",
        handler=delete,
        policy="placement:allocations:delete",
        statuses=(204, 401, 403, 404),
    ),
    Route(
        method="POST",
        path="/allocations",
        handler=post,
        policy="placement:allocations:manage",
        since=POST_ALLOCATIONS,
        body=schemas.POST,
        statuses=(204, 400, 401, 403, 404, 409, 415),
    ),
    Route(
        method="GET",
        path="/resource_providers/<uuid>/allocations",
        handler=list_of_provider,
        policy="placement:resource_providers:allocations:list",
        statuses=(200, 401, 403, 404, 406),
        answer=schemas.OF_PROVIDER_ANSWER,
    ),
)
