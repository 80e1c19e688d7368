"""What several nouns of the Placement API share: parts of schemas, Last-Modified, some errors."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from placement_sched.api.call import Answer, Call, Services
from placement_sched.api.placement.microversions import LAST_MODIFIED
from placement_sched.api.versions import Version
from placement_sched.errors import ConcurrentUpdate, InUse
from placement_sched.model.document import Json
from placement_sched.model.provider import (
    Allocation,
    Inventory,
    Provider,
    ResourceClass,
    Taken,
    Trait,
)
from placement_sched.schemas.parts import an_object
from placement_sched.store.placement import resource_providers
from placement_sched.store.placement.resource_providers import GENERATION_CHANGED

#: How OpenStack placement begins this detail, and what nova's own tests expect of its log.
_IN_USE = "There was a conflict when trying to complete your request.\n\n update conflict: "

#: The names of resource classes, traits and consumer types.
NAME = "^[A-Z0-9_]+$"


INTEGER: Json = {"type": "integer"}
TEXT: Json = {"type": "string"}
UPPER_CASE: Json = {"type": "string", "pattern": NAME}
UUID: Json = {"type": "string", "format": "uuid"}
UUID_OR_NULL: Json = {"anyOf": [UUID, {"type": "null"}]}


def record(**properties: Json) -> Json:
    """Return the schema of an object that has exactly these properties."""
    return an_object(properties, *properties)


def listing(items: Json) -> Json:
    """Return the schema of a list of such things, none of them twice."""
    return {"type": "array", "items": items, "uniqueItems": True}


def keyed(pattern: str, value: Json, **more: Any) -> Json:
    """Return the schema of an object of such values by keys of this pattern."""
    return {
        "type": "object",
        "patternProperties": {pattern: value},
        "additionalProperties": False,
        **more,
    }


def links(*relations: str) -> Json:
    """Return the schema of the links of an answer, one for each of these relations."""
    link = record(rel={"enum": list(relations)}, href=TEXT)
    return {**listing(link), "minItems": len(relations), "maxItems": len(relations)}


def growing(*added: tuple[Version, Json]) -> Iterator[tuple[Version, Json]]:
    """Yield the properties that there are at each version, of which each adds or changes some."""
    properties: Json = {}
    for since, more in added:
        properties = properties | more
        yield since, properties


#: Amounts by resource class.
AMOUNTS = keyed(NAME, INTEGER)

#: What has the times of its creation and last change.
Dated = Allocation | Inventory | Provider | ResourceClass | Taken | Trait


def latest_change(call: Call, shown: Iterable[Dated] = ()) -> datetime | None:
    """Return when the latest change among what is shown was made.

    Where nothing is shown, or one has no time, that is now. None before 1.15: then the header
    is not sent.
    """
    if not call.version.has(LAST_MODIFIED):
        return None
    changes = [one.updated_at or one.created_at for one in shown]
    known = [change for change in changes if change is not None]
    return max(known) if known and len(known) == len(changes) else call.now()


def dated(call: Call, body: Any, shown: Iterable[Dated] = (), **more: Any) -> Answer:
    """Return an answer with the Last-Modified of what it shows, which is now for nothing."""
    return Answer(body=body, last_modified=latest_change(call, shown), **more)


@contextmanager
def update_conflict() -> Iterator[None]:
    """Begin the detail as an update does that would remove an inventory in use."""
    try:
        yield
    except InUse as refusal:
        refusal.detail = f"{_IN_USE}{refusal.detail}"
        raise


@contextmanager
def generation_changed() -> Iterator[None]:
    """Begin the detail of a conflict of generations as routes of aggregates and traits do."""
    try:
        yield
    except ConcurrentUpdate as conflict:
        if conflict.detail.endswith(GENERATION_CHANGED):
            rest = conflict.detail.removesuffix(GENERATION_CHANGED).strip()
            conflict.detail = f"{GENERATION_CHANGED} {rest}"
        raise


def existing_provider(services: Services, uuid: str, **_rest: str) -> None:
    """Raise :class:`NotFound` where there is no such resource provider."""
    with services.database.read() as connection:
        resource_providers.by_uuid(connection, uuid)
