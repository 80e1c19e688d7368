# SPDX-License-Identifier: Apache-2.0
"""Routes of usages of a provider and of a project or user."""

from collections import Counter
from collections.abc import Sequence

from placement_sched.api.placement import (
    AMOUNTS,
    INTEGER,
    NAME,
    build_strict_map,
    build_strict_object,
    with_last_modified,
)
from placement_sched.api.placement import microversions as mv
from placement_sched.api.routing import ApiCall, ApiResponse, Blueprint
from placement_sched.api.validation import Schemas
from placement_sched.model.document import Json
from placement_sched.schemas.parts import OWNER, build_object_schema
from placement_sched.store.placement import usages
from placement_sched.store.placement.usages import TypeUsage

#: Value of ``consumer_type`` for the sum over all consumer types.
_ALL = "all"
#: A consumer type, or the words for all types and for consumers without a type.
_TYPES = "^([A-Z0-9_]+|all|unknown)$"

blueprint = Blueprint("usages", __name__)

_1_9 = {"project_id": OWNER, "user_id": OWNER}
_1_38 = {**_1_9, "consumer_type": {**OWNER, "pattern": _TYPES}}

GET = Schemas(
    (mv.USAGES, build_object_schema(_1_9, "project_id")),
    (mv.CONSUMER_TYPES, build_object_schema(_1_38, "project_id")),
)

# ``consumer_count`` is a key next to the amounts by resource class.
_BY_TYPE: Json = {
    **build_strict_object(consumer_count=INTEGER),
    "patternProperties": {NAME: INTEGER},
}

RESPONSE = Schemas(
    (mv.USAGES, build_strict_object(usages=AMOUNTS)),
    (mv.CONSUMER_TYPES, build_strict_object(usages=build_strict_map(_TYPES, _BY_TYPE))),
)

OF_PROVIDER_RESPONSE = Schemas(
    build_strict_object(resource_provider_generation=INTEGER, usages=AMOUNTS)
)


@blueprint.get(
    "/resource_providers/<uuid>/usages",
    policy="placement:resource_providers:usages",
    response=OF_PROVIDER_RESPONSE,
)
def of_provider(call: ApiCall, uuid: str) -> ApiResponse:
    """Show the used amount of each inventory of a provider."""
    generation, used = call.read(usages.get_by_provider_uuid, uuid)
    return with_last_modified(call, {"resource_provider_generation": generation, "usages": used})


@blueprint.get(
    "/usages",
    policy="placement:usages",
    since=mv.USAGES,
    query=GET,
    errors=(404,),
    response=RESPONSE,
)
def of_project(call: ApiCall) -> ApiResponse:
    """Show the usage of a project or user, from 1.38 on by consumer type."""
    project_id, user_id = call.find_value("project_id") or "", call.find_value("user_id")
    if not call.version.has(mv.CONSUMER_TYPES):
        amounts = call.read(usages.map_project_amounts, project_id, user_id)
        return with_last_modified(call, {"usages": amounts})
    consumer_type = call.find_value("consumer_type")
    rows = call.read(
        usages.list_project_usages,
        project_id,
        user_id=user_id,
        consumer_type=None if consumer_type == _ALL else consumer_type,
    )
    if consumer_type == _ALL:
        total: Counter[str] = Counter()
        for row in rows:
            total.update(row.amounts)
        by_type = {_ALL: {**total, **_count_consumers(rows)}} if rows else {}
    else:
        by_type = {row.consumer_type: {**row.amounts, **_count_consumers([row])} for row in rows}
    return with_last_modified(call, {"usages": by_type})


def _count_consumers(rows: Sequence[TypeUsage]) -> dict[str, int]:
    return {"consumer_count": sum(row.consumers for row in rows)}
