# SPDX-License-Identifier: Apache-2.0
"""The Placement API, and its responses: schemas, the Last-Modified header and error texts."""

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
from placement_sched.schemas.parts import object_schema
from placement_sched.store.placement import resource_providers as provider_store
from placement_sched.store.placement.resource_providers import (
    GENERATION_CHANGED,
    GenerationConflict,
)

#: The beginning of this error in OpenStack placement, which nova's tests expect in its log.
_UPDATE_CONFLICT = (
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


def strict_object(**properties: Json) -> Json:
    """Build the schema of an object that has exactly these properties."""
    return object_schema(properties, *properties)


def unique_list(items: Json) -> Json:
    """Build the schema of a list of unique items."""
    return {"type": "array", "items": items, "uniqueItems": True}


def strict_map(pattern: str, value: Json, **more: Any) -> Json:
    """Build the schema of an object, given a key pattern and the values' schema."""
    return {
        "type": "object",
        "patternProperties": {pattern: value},
        "additionalProperties": False,
        **more,
    }


def links(*relations: str) -> Json:
    """Build the schema of the links of a response, with these relations."""
    link = strict_object(rel={"enum": list(relations)}, href=TEXT)
    return {**unique_list(link), "minItems": len(relations), "maxItems": len(relations)}


def by_version(*changes: tuple[Version, Json]) -> Iterator[tuple[Version, Json]]:
    """Yield the properties at each version, given the changes at each version."""
    properties: Json = {}
    for since, changed in changes:
        properties = properties | changed
        yield since, properties


#: Amounts by resource class.
AMOUNTS = strict_map(NAME, INTEGER)


def latest_change(call: ApiCall, records: Iterable[Dated] = ()) -> datetime | None:
    """Return the time of the latest change of these records.

    The result is the current time if there are no records or a record has no time. Before 1.15 it
    is None, and the header Last-Modified is not sent.
    """
    if not call.version.has(LAST_MODIFIED):
        return None
    times = [record.updated_at or record.created_at for record in records]
    set_times = [time for time in times if time is not None]
    return max(set_times) if set_times and len(set_times) == len(times) else call.now()


def with_last_modified(
    call: ApiCall, body: Any, records: Iterable[Dated] = (), **more: Any
) -> ApiResponse:
    """Build a response with the Last-Modified of these records, or of now without any."""
    return ApiResponse(body=body, last_modified=latest_change(call, records), **more)


@contextmanager
def update_conflict() -> Iterator[None]:
    """Add placement's prefix to errors of updates that remove an inventory in use."""
    try:
        yield
    except InUse as error:
        error.detail = f"{_UPDATE_CONFLICT}{error.detail}"
        raise


@contextmanager
def generation_changed() -> Iterator[None]:
    """Move the sentence about the generation to the beginning of a conflict.

    OpenStack placement begins the detail with this sentence on the routes of aggregates and traits.
    """
    try:
        yield
    except GenerationConflict as conflict:
        conflict.detail = f"{GENERATION_CHANGED} {conflict.generations}"
        raise


def existing_provider(services: Services, uuid: str, **_rest: str) -> None:
    """Reject a uuid without a resource provider.

    Raises :class:`NotFound`.
    """
    with services.database.read() as connection:
        provider_store.by_uuid(connection, uuid)
