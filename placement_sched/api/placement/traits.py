# SPDX-License-Identifier: Apache-2.0
"""Routes of traits.

Source: Placement API reference, "Traits" and "Resource provider traits".
"""

import re
from collections.abc import Iterable
from typing import Any

from placement_sched.api import placement
from placement_sched.api.placement import INTEGER, TEXT, build_strict_object
from placement_sched.api.placement import microversions as mv
from placement_sched.api.routing import ApiCall, ApiResponse, Blueprint, run_in_transaction
from placement_sched.api.validation import Schemas
from placement_sched.db.transaction import Connection
from placement_sched.errors import Invalid
from placement_sched.limits import MAX_PROVIDER_ITEMS, MAX_TRAIT_CHARACTERS
from placement_sched.model.provider import CUSTOM_PREFIX, Trait
from placement_sched.schemas.parts import build_object_schema
from placement_sched.store.placement import resource_providers, traits

_CUSTOM = re.compile(f"{CUSTOM_PREFIX}[A-Z0-9_]+")

blueprint = Blueprint("traits", __name__, since=mv.TRAITS)

_COLLECTION_PATH = "/traits"
_ITEM_PATH = "/traits/<name>"
_ON_PROVIDER = "/resource_providers/<uuid>/traits"

LIST = Schemas(build_object_schema({"name": TEXT, "associated": TEXT}))

# An invalid name is reported as an unknown trait.
_TRAITS = {
    "type": "array",
    "items": {"type": "string", "minLength": 1, "maxLength": MAX_TRAIT_CHARACTERS},
    "maxItems": MAX_PROVIDER_ITEMS,
}

PUT_ON_PROVIDER = Schemas(build_strict_object(traits=_TRAITS, resource_provider_generation=INTEGER))

_NAMES = placement.build_unique_list(placement.UPPER_CASE)

LIST_RESPONSE = Schemas(build_strict_object(traits=_NAMES))

ON_PROVIDER_RESPONSE = Schemas(
    build_strict_object(traits=_NAMES, resource_provider_generation=INTEGER)
)


@blueprint.get(
    _COLLECTION_PATH,
    policy="placement:traits:list",
    query=LIST,
    errors=(404,),
    response=LIST_RESPONSE,
)
def index(call: ApiCall) -> ApiResponse:
    """List the names of traits, filtered by names, prefix or use."""
    name_filter, associated = _parse_name_filter(call), call.find_value("associated")
    if associated is not None and associated.lower() not in {"true", "false"}:
        raise Invalid('The query parameter "associated" only accepts "true" or "false"')
    in_use = None if associated is None else associated.lower() == "true"
    rows = call.read(traits.search, **name_filter, associated=in_use)
    return placement.with_last_modified(call, {"traits": [trait.name for trait in rows]}, rows)


def _parse_name_filter(call: ApiCall) -> dict[str, Any]:
    text = call.find_value("name")
    if text is None:
        return {}
    if text.startswith("in:"):
        return {"names": text.removeprefix("in:").split(",")}
    if text.startswith("startswith:"):
        return {"prefix": text.removeprefix("startswith:")}
    raise Invalid(
        "Badly formatted name parameter. Expected name query string parameter in form: "
        f'?name=[in|startswith]:[name1,name2|prefix]. Got: "{text}", which begins with neither.'
    )


@blueprint.get(_ITEM_PATH, policy="placement:traits:show", success=(204,), has_last_modified=True)
def show(call: ApiCall, name: str) -> ApiResponse:
    """Return 204 if the trait exists."""
    return placement.with_last_modified(
        call, None, [call.read(traits.get_by_name, name)], status=204
    )


@blueprint.put(
    _ITEM_PATH,
    policy="placement:traits:update",
    success=(201, 204),
    located=True,
    has_last_modified=True,
)
@run_in_transaction
def ensure(call: ApiCall, connection: Connection, name: str) -> ApiResponse:
    """Create a custom trait if it does not exist."""
    if not _CUSTOM.fullmatch(name) or len(name) > MAX_TRAIT_CHARACTERS:
        raise Invalid(
            "The trait is invalid. A valid trait must be no longer than "
            f'{MAX_TRAIT_CHARACTERS} characters, start with the prefix "{CUSTOM_PREFIX}" and use '
            f'following characters: "A"-"Z", "0"-"9" and "_". Got {len(name)} characters: {name}'
        )
    status = 201 if traits.ensure(connection, name, call.read_clock()) else 204
    headers = {"Location": f"{call.url}/traits/{name}"}
    trait = traits.get_by_name(connection, name)
    return placement.with_last_modified(call, None, [trait], status=status, headers=headers)


@blueprint.delete(_ITEM_PATH, policy="placement:traits:delete", success=(204,), errors=(409,))
@run_in_transaction
def remove(_call: ApiCall, connection: Connection, name: str) -> ApiResponse:
    """Delete a custom trait that no provider has."""
    trait = traits.get_by_name(connection, name)
    if not name.startswith(CUSTOM_PREFIX):
        raise Invalid(f"Cannot delete standard trait {name}.")
    traits.remove(connection, trait)
    return ApiResponse(status=204)


@blueprint.get(
    _ON_PROVIDER, policy="placement:resource_providers:traits:list", response=ON_PROVIDER_RESPONSE
)
def of_provider(call: ApiCall, uuid: str) -> ApiResponse:
    """List the traits of a provider."""
    row = call.read(traits.get_provider_traits, uuid)
    return _build_response(call, row.traits, row.generation)


@blueprint.put(
    _ON_PROVIDER,
    policy="placement:resource_providers:traits:update",
    body=PUT_ON_PROVIDER,
    errors=(409,),
    response=ON_PROVIDER_RESPONSE,
)
@placement.reword_generation_conflict()
@run_in_transaction
def replace(call: ApiCall, connection: Connection, uuid: str) -> ApiResponse:
    """Replace the traits of a provider."""
    expected: int = call.body["resource_provider_generation"]
    provider_id, generation, current = traits.get_provider_traits(connection, uuid)
    resource_providers.check_generation(uuid, generation, expected)
    names = set(call.body["traits"])
    retained = [trait for trait in current if trait.name in names]  # not read again
    unknown = names.difference(trait.name for trait in retained)
    rows = traits.list_by_names(connection, unknown) if unknown else ()
    if nonexistent_names := sorted(unknown.difference(trait.name for trait in rows)):
        raise Invalid(f"No such trait {', '.join(nonexistent_names)}")
    new_traits = tuple(sorted([*retained, *rows], key=lambda trait: trait.id))
    if new_traits != current:
        resource_providers.bump_generation_from(
            connection, provider_id, uuid, generation, call.read_clock()
        )
        traits.replace(
            connection, provider_id, _list_ids(current), _list_ids(new_traits), call.read_clock()
        )
        generation += 1
    return _build_response(call, new_traits, generation)


@blueprint.delete(
    _ON_PROVIDER, policy="placement:resource_providers:traits:delete", success=(204,), errors=(409,)
)
@run_in_transaction
def clear(call: ApiCall, connection: Connection, uuid: str) -> ApiResponse:
    """Remove all traits of a provider."""
    provider = resource_providers.lock_by_uuid(connection, uuid)
    current = traits.get_provider_traits(connection, uuid).traits
    if traits.replace(connection, provider.id, _list_ids(current), (), call.read_clock()):
        resource_providers.bump_generations(connection, [provider.id], call.read_clock())
    return ApiResponse(status=204)


def _list_ids(rows: Iterable[Trait]) -> list[int]:
    return [trait.id for trait in rows]


def _build_response(call: ApiCall, rows: tuple[Trait, ...], generation: int) -> ApiResponse:
    names = [trait.name for trait in rows]
    return placement.with_last_modified(
        call, {"traits": names, "resource_provider_generation": generation}, rows
    )
