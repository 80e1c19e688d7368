# SPDX-License-Identifier: Apache-2.0
"""Placement API: schemas, Last-Modified and error texts of its routes."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from placement_sched.api.placement.microversions import LAST_MODIFIED
from placement_sched.api.routing import ApiCall, ApiResponse, Services
from placement_sched.api.versions import Version
from placement_sched.errors import InUse
from placement_sched.model.document import Json
from placement_sched.model.provider import (
    Allocation,
    Inventory,
    Provider,
    ProviderAllocation,
    ResourceClass,
    Trait,
)
from placement_sched.schemas.parts import build_object_schema
from placement_sched.store.placement import resource_providers as provider_store
from placement_sched.store.placement.resource_providers import (
    GENERATION_CHANGED,
    GenerationConflict,
)

#: The beginning of OpenStack placement's error for an update that removes an inventory in use.
#: nova's tests search for it in the log of placement.
_UPDATE_CONFLICT_PREFIX = (
    "There was a conflict when trying to complete your request.\n\n update conflict: "
)

#: Pattern of the names of resource classes, traits and consumer types.
NAME = "^[A-Z0-9_]+$"


INTEGER: Json = {"type": "integer"}
TEXT: Json = {"type": "string"}
UPPER_CASE: Json = {"type": "string", "pattern": NAME}
UUID: Json = {"type": "string", "format": "uuid"}
UUID_OR_NULL: Json = {"anyOf": [UUID, {"type": "null"}]}
#: Records with the times of their creation and last change.
Dated = Allocation | Inventory | Provider | ResourceClass | ProviderAllocation | Trait


def build_strict_object(**properties: Json) -> Json:
    """Build the schema of an object that has exactly these properties."""
    return build_object_schema(properties, *properties)


def build_unique_list(items: Json) -> Json:
    """Build the schema of a list of unique items."""
    return {"type": "array", "items": items, "uniqueItems": True}


def build_strict_map(pattern: str, value: Json, **keywords: Any) -> Json:
    """Build the schema of an object whose keys match ``pattern``."""
    return {
        "type": "object",
        "patternProperties": {pattern: value},
        "additionalProperties": False,
        **keywords,
    }


def build_links_schema(*relations: str) -> Json:
    """Build the schema of the links of a response, with these relations."""
    link = build_strict_object(rel={"enum": list(relations)}, href=TEXT)
    return {**build_unique_list(link), "minItems": len(relations), "maxItems": len(relations)}


def merge_by_version(*changes: tuple[Version, Json]) -> Iterator[tuple[Version, Json]]:
    """Yield each version with all properties up to then."""
    properties: Json = {}
    for since, new_properties in changes:
        properties = properties | new_properties
        yield since, properties


#: Amounts by resource class.
AMOUNTS = build_strict_map(NAME, INTEGER)


def find_latest_change(call: ApiCall, records: Iterable[Dated] = ()) -> datetime | None:
    """Return the time of the latest change of these records.

    The result is the current time if there are no records or a record has no time. Before 1.15 it
    is None, and the header Last-Modified is not sent.
    """
    if not call.version.has(LAST_MODIFIED):
        return None
    times = [record.updated_at or record.created_at for record in records]
    set_times = [time for time in times if time is not None]
    return max(set_times) if set_times and len(set_times) == len(times) else call.read_clock()


def with_last_modified(
    call: ApiCall, body: Any, records: Iterable[Dated] = (), **response_fields: Any
) -> ApiResponse:
    """Build a response, last modified at the latest change (default: now)."""
    return ApiResponse(
        body=body, last_modified=find_latest_change(call, records), **response_fields
    )


@contextmanager
def add_update_conflict_prefix() -> Iterator[None]:
    """Add placement's prefix to errors about removing an inventory in use."""
    try:
        yield
    except InUse as error:
        error.detail = f"{_UPDATE_CONFLICT_PREFIX}{error.detail}"
        raise


@contextmanager
def reword_generation_conflict() -> Iterator[None]:
    """Begin an error with the sentence about the generation, as placement."""
    try:
        yield
    except GenerationConflict as conflict:
        conflict.detail = f"{GENERATION_CHANGED} {conflict.generations}"
        raise


def require_provider(services: Services, uuid: str, **_rest: str) -> None:
    """Raise :class:`NotFound` if the resource provider does not exist."""
    with services.database.read() as connection:
        provider_store.get_by_uuid(connection, uuid)
