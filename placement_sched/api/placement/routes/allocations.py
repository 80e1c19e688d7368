"""Routes of allocations: what consumers hold, and the claims that change it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from placement_sched.api.blueprint import Blueprint
from placement_sched.api.call import Answer, Call, in_transaction
from placement_sched.api.placement import conventions as shared
from placement_sched.api.placement import microversions as mv
from placement_sched.api.placement.conventions import INTEGER, TEXT, UUID, keyed, record
from placement_sched.api.validation import Schemas
from placement_sched.api.versions import Version
from placement_sched.db.transaction import Connection
from placement_sched.errors import Invalid, NotFound
from placement_sched.limits import MAX_ALLOCATION_AMOUNTS
from placement_sched.model.document import Json
from placement_sched.model.names import LIKE_UUID, canonical, read_uuid
from placement_sched.model.provider import UNCHECKED, UNKNOWN_TYPE, Allocation, ConsumerClaim
from placement_sched.schemas.fields import OWNER
from placement_sched.schemas.parts import a_list, an_object
from placement_sched.store.placement import allocations

blueprint = Blueprint("allocations", __name__)

_OF_CONSUMER = "/allocations/<consumer_uuid>"


_RESOURCES = keyed(shared.NAME, {"type": "integer", "minimum": 1}, minProperties=1)
_LIST = a_list(record(resource_provider=record(uuid=UUID), resources=_RESOURCES), minItems=1)
# The generation is what GET shows; it is taken, and not looked at.
_ONE_PROVIDER = an_object({"generation": INTEGER, "resources": _RESOURCES}, "resources")
_BY_PROVIDER = keyed(LIKE_UUID, _ONE_PROVIDER)
_MAPPINGS: Json = {
    "type": "object",
    "minProperties": 1,
    "patternProperties": {"^[a-zA-Z0-9_-]+$": a_list(UUID, minItems=1)},
}
_TYPE = {"type": "string", "pattern": shared.NAME, "minLength": 1, "maxLength": 255}

#: What a claim says beside allocations, by version.
_BESIDE = dict(
    shared.growing(
        (mv.OLDEST, {}),
        (mv.CONSUMER_PROJECT_AND_USER, {"project_id": OWNER, "user_id": OWNER}),
        (mv.ALLOCATIONS_BY_PROVIDER_UUID, {}),
        (mv.CONSUMER_GENERATIONS, {"consumer_generation": {"type": ["integer", "null"]}}),
        (mv.MAPPINGS, {"mappings": _MAPPINGS}),
        (mv.CONSUMER_TYPES, {"consumer_type": _TYPE}),
    )
)


def _claim(allocations: Json, since: Version) -> Json:
    """Return the schema of one consumer's claim; everything but ``mappings`` is required."""
    properties = {"allocations": allocations, **_BESIDE[since]}
    return an_object(properties, *(name for name in properties if name != "mappings"))


#: Claims of consumers by uuid as ``POST /allocations`` and the reshaper take them, by version.
BY_CONSUMER = {
    since: keyed(LIKE_UUID, _claim(_BY_PROVIDER, since), minProperties=1)
    for since in _BESIDE
    if since.has(mv.ALLOCATIONS_BY_PROVIDER_UUID)
}

POST = Schemas(*BY_CONSUMER.items())

#: The allocations of one consumer, where they are not as in POST: later they may be none.
_OF_ONE = {
    mv.OLDEST: _LIST,
    mv.CONSUMER_PROJECT_AND_USER: _LIST,
    mv.ALLOCATIONS_BY_PROVIDER_UUID: {**_BY_PROVIDER, "minProperties": 1},
}

PUT = Schemas(*((since, _claim(_OF_ONE.get(since, _BY_PROVIDER), since)) for since in _BESIDE))

_HELD = keyed(LIKE_UUID, record(generation=INTEGER, resources=shared.AMOUNTS))

# Only a consumer that holds something has an owner.
OF_CONSUMER_ANSWER = Schemas(
    *(
        (
            since,
            {
                **an_object({"allocations": _HELD, **owner}, "allocations"),
                "dependentRequired": {name: list(owner) for name in owner},
            },
        )
        for since, owner in shared.growing(
            (mv.OLDEST, {}),
            (mv.ALLOCATIONS_BY_PROVIDER_UUID, {"project_id": TEXT, "user_id": TEXT}),
            (mv.CONSUMER_GENERATIONS, {"consumer_generation": INTEGER}),
            (mv.CONSUMER_TYPES, {"consumer_type": TEXT}),
        )
    )
)


def _of_provider(**held: Json) -> Json:
    by_consumer = keyed(LIKE_UUID, record(resources=shared.AMOUNTS, **held))
    return record(allocations=by_consumer, resource_provider_generation=INTEGER)


OF_PROVIDER_ANSWER = Schemas(
    (mv.OLDEST, _of_provider()),
    (mv.CONSUMER_GENERATIONS, _of_provider(consumer_generation=INTEGER)),
)


@blueprint.get(_OF_CONSUMER, policy="placement:allocations:list", answer=OF_CONSUMER_ANSWER)
def list_of_consumer(call: Call, consumer_uuid: str) -> Answer:
    """Return what a consumer holds; an unknown consumer holds nothing."""
    found = call.read(allocations.of_consumer, consumer_uuid)
    by_provider: dict[str, dict[str, Any]] = {}
    for one in found:
        shown = by_provider.setdefault(
            one.provider_uuid, {"resources": {}, "generation": one.provider_generation}
        )
        shown["resources"][one.resource_class] = one.used
    owner = _owner(call, found[0]) if found else {}
    return shared.dated(call, {"allocations": by_provider, **owner}, found)


@blueprint.get(
    "/resource_providers/<uuid>/allocations",
    policy="placement:resource_providers:allocations:list",
    answer=OF_PROVIDER_ANSWER,
)
def list_of_provider(call: Call, uuid: str) -> Answer:
    """Return what is allocated of a provider, by consumer."""
    try:
        generation, found = call.read(allocations.of_provider, uuid)
    except NotFound as missing:
        missing.detail = f"Resource provider '{uuid}' not found: {missing.detail}"
        raise
    shows_generations = call.version.has(mv.CONSUMER_GENERATIONS)
    by_consumer: dict[str, dict[str, Any]] = {}
    for one in found:
        shown = by_consumer.get(one.consumer)
        if shown is None:
            shown = by_consumer[one.consumer] = {"resources": {}}
            if shows_generations:
                shown["consumer_generation"] = one.generation
        shown["resources"][one.resource_class] = one.used
    body = {"allocations": by_consumer, "resource_provider_generation": generation}
    return shared.dated(call, body, found)


@blueprint.put(
    _OF_CONSUMER, policy="placement:allocations:update", body=PUT, success=(204,), refusals=(409,)
)
def put(call: Call, consumer_uuid: str) -> Answer:
    """Make a consumer hold exactly what the body says."""
    if read_uuid(consumer_uuid) is None:
        raise Invalid(f"Malformed consumer_uuid: {consumer_uuid}")
    body = call.body
    if not call.version.has(mv.ALLOCATIONS_BY_PROVIDER_UUID):
        # As OpenStack placement has it, the last of several entries for a provider counts.
        by_provider = {one["resource_provider"]["uuid"]: one for one in body["allocations"]}
        body = {**body, "allocations": by_provider}
    refuse_too_many([body], "$.allocations")
    return _replace(call, [claim_of(call, consumer_uuid, body)])


@blueprint.post(
    "/allocations",
    policy="placement:allocations:manage",
    since=mv.POST_ALLOCATIONS,
    body=POST,
    success=(204,),
    refusals=(404, 409),
)
def post(call: Call) -> Answer:
    """Make several consumers hold exactly what the body says: all of it or nothing."""
    refuse_too_many(call.body.values(), "$")
    return _replace(call, claims_of(call, call.body))


@blueprint.delete(_OF_CONSUMER, policy="placement:allocations:delete", success=(204,))
@in_transaction
def delete(_call: Call, connection: Connection, consumer_uuid: str) -> Answer:
    """Free everything that a consumer holds."""
    if not allocations.remove(connection, spellings(consumer_uuid)):
        raise NotFound(f"No allocations for consumer '{consumer_uuid}'")
    return Answer(status=204)


def refuse_too_many(claims: Iterable[Mapping[str, Any]], place: str) -> None:
    """Raise :class:`Invalid` where claims, as of 1.12 or later, name too many amounts."""
    asked = (one for claim in claims for one in claim["allocations"].values())
    number = sum(len(one["resources"]) for one in asked)
    if number > MAX_ALLOCATION_AMOUNTS:
        raise Invalid(
            f"JSON does not validate: {place}: the consumers hold {number} amounts, and one "
            f"request may name {MAX_ALLOCATION_AMOUNTS} at most."
        )


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
    database = call.services.database
    run = database.claim if any(claim.allocations for claim in claims) else database.write
    run(lambda connection: allocations.replace(connection, claims, call.now(), named_at="$"))
    return Answer(status=204)


def _owner(call: Call, held: Allocation) -> dict[str, Any]:
    """Return the owner of allocations, as far as the version shows it."""
    consumer, incomplete = held.consumer, call.services.settings.placement
    shown: dict[str, Any] = {}
    if call.version.has(mv.ALLOCATIONS_BY_PROVIDER_UUID):
        shown["project_id"] = consumer.project_id or incomplete.incomplete_consumer_project_id
        shown["user_id"] = consumer.user_id or incomplete.incomplete_consumer_user_id
    if call.version.has(mv.CONSUMER_GENERATIONS):
        shown["consumer_generation"] = consumer.generation
    if call.version.has(mv.CONSUMER_TYPES):
        shown["consumer_type"] = consumer.consumer_type or UNKNOWN_TYPE
    return shown
