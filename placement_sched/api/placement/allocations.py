# SPDX-License-Identifier: Apache-2.0
"""Routes of allocations."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from placement_sched.api import placement
from placement_sched.api.placement import INTEGER, TEXT, UUID, build_strict_map, build_strict_object
from placement_sched.api.placement import microversions as mv
from placement_sched.api.routing import ApiCall, ApiResponse, Blueprint, run_in_transaction
from placement_sched.api.validation import Schemas
from placement_sched.api.versions import Version
from placement_sched.db.transaction import Connection
from placement_sched.errors import Invalid, NotFound
from placement_sched.limits import MAX_ALLOCATION_AMOUNTS
from placement_sched.model.document import Json
from placement_sched.model.names import LIKE_UUID, canonicalize_uuid, read_uuid
from placement_sched.model.provider import UNCHECKED, UNKNOWN_TYPE, Allocation, ConsumerClaim
from placement_sched.schemas.parts import OWNER, build_list_schema, build_object_schema
from placement_sched.store.placement import allocations

blueprint = Blueprint("allocations", __name__)

_OF_CONSUMER = "/allocations/<consumer_uuid>"


_RESOURCES = build_strict_map(placement.NAME, {"type": "integer", "minimum": 1}, minProperties=1)
_LIST = build_list_schema(
    build_strict_object(resource_provider=build_strict_object(uuid=UUID), resources=_RESOURCES),
    minItems=1,
)
# GET shows the generation. PUT and POST accept and ignore it.
_PROVIDER = build_object_schema({"generation": INTEGER, "resources": _RESOURCES}, "resources")
_BY_PROVIDER = build_strict_map(LIKE_UUID, _PROVIDER)
_MAPPINGS: Json = {
    "type": "object",
    "minProperties": 1,
    "patternProperties": {"^[a-zA-Z0-9_-]+$": build_list_schema(UUID, minItems=1)},
}
_TYPE = {"type": "string", "pattern": placement.NAME, "minLength": 1, "maxLength": 255}

#: Properties of a claim other than its allocations, by version.
_CLAIM = dict(
    placement.merge_by_version(
        (mv.OLDEST, {}),
        (mv.CONSUMER_PROJECT_AND_USER, {"project_id": OWNER, "user_id": OWNER}),
        (mv.ALLOCATIONS_BY_PROVIDER_UUID, {}),
        (mv.CONSUMER_GENERATIONS, {"consumer_generation": {"type": ["integer", "null"]}}),
        (mv.MAPPINGS, {"mappings": _MAPPINGS}),
        (mv.CONSUMER_TYPES, {"consumer_type": _TYPE}),
    )
)


def _build_claim_schema(allocations: Json, since: Version) -> Json:
    properties = {"allocations": allocations, **_CLAIM[since]}
    return build_object_schema(properties, *(name for name in properties if name != "mappings"))


#: Schemas of claims by consumer uuid, of ``POST /allocations`` and the reshaper, by version.
BY_CONSUMER = {
    since: build_strict_map(LIKE_UUID, _build_claim_schema(_BY_PROVIDER, since), minProperties=1)
    for since in _CLAIM
    if since.has(mv.ALLOCATIONS_BY_PROVIDER_UUID)
}

POST = Schemas(*BY_CONSUMER.items())

#: Schemas of the allocations in PUT, for versions that differ from POST. Later versions also
#: accept empty allocations.
_PUT_BODY = {
    mv.OLDEST: _LIST,
    mv.CONSUMER_PROJECT_AND_USER: _LIST,
    mv.ALLOCATIONS_BY_PROVIDER_UUID: {**_BY_PROVIDER, "minProperties": 1},
}

PUT = Schemas(
    *((since, _build_claim_schema(_PUT_BODY.get(since, _BY_PROVIDER), since)) for since in _CLAIM)
)

_ALLOCATIONS = build_strict_map(
    LIKE_UUID, build_strict_object(generation=INTEGER, resources=placement.AMOUNTS)
)

# Only a consumer with allocations has an owner.
OF_CONSUMER_RESPONSE = Schemas(
    *(
        (
            since,
            {
                **build_object_schema({"allocations": _ALLOCATIONS, **owner}, "allocations"),
                "dependentRequired": {name: list(owner) for name in owner},
            },
        )
        for since, owner in placement.merge_by_version(
            (mv.OLDEST, {}),
            (mv.ALLOCATIONS_BY_PROVIDER_UUID, {"project_id": TEXT, "user_id": TEXT}),
            (mv.CONSUMER_GENERATIONS, {"consumer_generation": INTEGER}),
            (mv.CONSUMER_TYPES, {"consumer_type": TEXT}),
        )
    )
)


def _build_provider_schema(**properties: Json) -> Json:
    by_consumer = build_strict_map(
        LIKE_UUID, build_strict_object(resources=placement.AMOUNTS, **properties)
    )
    return build_strict_object(allocations=by_consumer, resource_provider_generation=INTEGER)


OF_PROVIDER_RESPONSE = Schemas(
    (mv.OLDEST, _build_provider_schema()),
    (mv.CONSUMER_GENERATIONS, _build_provider_schema(consumer_generation=INTEGER)),
)


@blueprint.get(_OF_CONSUMER, policy="placement:allocations:list", response=OF_CONSUMER_RESPONSE)
def list_of_consumer(call: ApiCall, consumer_uuid: str) -> ApiResponse:
    """List the allocations of a consumer, none for an unknown consumer."""
    rows = call.read(allocations.list_by_consumer, consumer_uuid)
    by_provider: dict[str, dict[str, Any]] = {}
    for row in rows:
        entry = by_provider.setdefault(
            row.provider_uuid, {"resources": {}, "generation": row.provider_generation}
        )
        entry["resources"][row.resource_class] = row.used
    owner = _build_owner(call, rows[0]) if rows else {}
    return placement.with_last_modified(call, {"allocations": by_provider, **owner}, rows)


@blueprint.get(
    "/resource_providers/<uuid>/allocations",
    policy="placement:resource_providers:allocations:list",
    response=OF_PROVIDER_RESPONSE,
)
def list_of_provider(call: ApiCall, uuid: str) -> ApiResponse:
    """List the allocations of a provider by consumer."""
    try:
        generation, rows = call.read(allocations.get_by_provider_uuid, uuid)
    except NotFound as error:
        error.detail = f"Resource provider '{uuid}' not found: {error.detail}"
        raise
    shows_generations = call.version.has(mv.CONSUMER_GENERATIONS)
    by_consumer: dict[str, dict[str, Any]] = {}
    for row in rows:
        entry = by_consumer.get(row.consumer)
        if entry is None:
            entry = by_consumer[row.consumer] = {"resources": {}}
            if shows_generations:
                entry["consumer_generation"] = row.generation
        entry["resources"][row.resource_class] = row.used
    body = {"allocations": by_consumer, "resource_provider_generation": generation}
    return placement.with_last_modified(call, body, rows)


@blueprint.put(
    _OF_CONSUMER, policy="placement:allocations:update", body=PUT, success=(204,), errors=(409,)
)
def put(call: ApiCall, consumer_uuid: str) -> ApiResponse:
    """Replace the allocations of a consumer."""
    if read_uuid(consumer_uuid) is None:
        raise Invalid(f"Malformed consumer_uuid: {consumer_uuid}")
    body = call.body
    if not call.version.has(mv.ALLOCATIONS_BY_PROVIDER_UUID):
        # As in OpenStack placement, the last of several entries for a provider counts.
        by_provider = {entry["resource_provider"]["uuid"]: entry for entry in body["allocations"]}
        body = {**body, "allocations": by_provider}
    reject_too_many([body], "$.allocations")
    return _replace_allocations(call, [_parse_claim(call, consumer_uuid, body)])


@blueprint.post(
    "/allocations",
    policy="placement:allocations:manage",
    since=mv.POST_ALLOCATIONS,
    body=POST,
    success=(204,),
    errors=(404, 409),
)
def post(call: ApiCall) -> ApiResponse:
    """Replace the allocations of several consumers: all or nothing."""
    reject_too_many(call.body.values(), "$")
    return _replace_allocations(call, parse_claims(call, call.body))


@blueprint.delete(_OF_CONSUMER, policy="placement:allocations:delete", success=(204,))
@run_in_transaction
def delete(_call: ApiCall, connection: Connection, consumer_uuid: str) -> ApiResponse:
    """Delete the allocations of a consumer."""
    # OpenStack placement stores the consumers of POST /allocations in the caller's spelling.
    if not allocations.remove(
        connection, sorted({consumer_uuid, canonicalize_uuid(consumer_uuid)})
    ):
        raise NotFound(f"No allocations for consumer '{consumer_uuid}'")
    return ApiResponse(status=204)


def reject_too_many(claims: Iterable[Mapping[str, Any]], json_path: str) -> None:
    """Raise :class:`Invalid` for too many amounts in claims (1.12 format)."""
    entries = (entry for claim in claims for entry in claim["allocations"].values())
    number = sum(len(entry["resources"]) for entry in entries)
    if number > MAX_ALLOCATION_AMOUNTS:
        raise Invalid(
            f"JSON does not validate: {json_path}: the request has {number} amounts in all, "
            f"which exceeds the limit of {MAX_ALLOCATION_AMOUNTS} per request."
        )


def parse_claims(call: ApiCall, body: Mapping[str, Any]) -> list[ConsumerClaim]:
    """Parse a body that maps consumers to claims (requested allocations).

    Raises :class:`Invalid` if two spellings name the same consumer.
    """
    claims = [_parse_claim(call, uuid, claim) for uuid, claim in body.items()]
    if len({claim.consumer for claim in claims}) != len(claims):
        raise Invalid("JSON does not validate: the body names a consumer twice.")
    return claims


def _parse_claim(call: ApiCall, consumer_uuid: str, body: Mapping[str, Any]) -> ConsumerClaim:
    defaults = call.services.settings.placement
    return ConsumerClaim(
        consumer=canonicalize_uuid(consumer_uuid),
        allocations={
            provider: {name: int(amount) for name, amount in entry["resources"].items()}
            for provider, entry in body["allocations"].items()
        },
        project_id=body.get("project_id", defaults.incomplete_consumer_project_id),
        user_id=body.get("user_id", defaults.incomplete_consumer_user_id),
        consumer_type=body.get("consumer_type"),
        generation=body.get("consumer_generation", UNCHECKED),
    )


def _replace_allocations(call: ApiCall, claims: Sequence[ConsumerClaim]) -> ApiResponse:
    database = call.services.database
    run = database.claim if any(claim.allocations for claim in claims) else database.write
    run(lambda connection: allocations.replace(connection, claims, call.read_clock()))
    return ApiResponse(status=204)


def _build_owner(call: ApiCall, allocation: Allocation) -> dict[str, Any]:
    consumer, defaults = allocation.consumer, call.services.settings.placement
    owner: dict[str, Any] = {}
    if call.version.has(mv.ALLOCATIONS_BY_PROVIDER_UUID):
        owner["project_id"] = consumer.project_id or defaults.incomplete_consumer_project_id
        owner["user_id"] = consumer.user_id or defaults.incomplete_consumer_user_id
    if call.version.has(mv.CONSUMER_GENERATIONS):
        owner["consumer_generation"] = consumer.generation
    if call.version.has(mv.CONSUMER_TYPES):
        owner["consumer_type"] = consumer.consumer_type or UNKNOWN_TYPE
    return owner
