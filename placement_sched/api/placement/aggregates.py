# SPDX-License-Identifier: Apache-2.0
"""Routes of provider aggregates.

Source: Placement API reference, "Resource provider aggregates".
"""

from collections.abc import Iterable
from typing import Any

from placement_sched.api import placement
from placement_sched.api.placement import INTEGER, UUID, build_strict_object, build_unique_list
from placement_sched.api.placement import microversions as mv
from placement_sched.api.routing import ApiCall, ApiResponse, Blueprint, run_in_transaction
from placement_sched.api.validation import Schemas
from placement_sched.db.transaction import Connection
from placement_sched.limits import MAX_PROVIDER_ITEMS
from placement_sched.model.names import canonicalize_uuid
from placement_sched.store.placement import aggregates, resource_providers

blueprint = Blueprint("aggregates", __name__, since=mv.PROVIDER_AGGREGATES)

_PATH = "/resource_providers/<uuid>/aggregates"
_POLICY = "placement:resource_providers:aggregates"

_UUIDS = {**build_unique_list(UUID), "maxItems": MAX_PROVIDER_ITEMS}

_GENERATION = {"resource_provider_generation": INTEGER}

PUT = Schemas(
    (mv.PROVIDER_AGGREGATES, _UUIDS),
    (mv.AGGREGATE_GENERATIONS, build_strict_object(aggregates=_UUIDS, **_GENERATION)),
)

_SHOWN = {"aggregates": build_unique_list(UUID)}
RESPONSE = Schemas(
    (mv.PROVIDER_AGGREGATES, build_strict_object(**_SHOWN)),
    (mv.AGGREGATE_GENERATIONS, build_strict_object(**_SHOWN, **_GENERATION)),
)


@blueprint.get(_PATH, policy=f"{_POLICY}:list", response=RESPONSE)
def show(call: ApiCall, uuid: str) -> ApiResponse:
    """Show the aggregates of a provider."""
    generation, uuids = call.read(aggregates.get_by_provider_uuid, uuid)
    return _build_response(call, uuids, generation)


@blueprint.put(
    _PATH,
    policy=f"{_POLICY}:update",
    body=PUT,
    subject=placement.require_provider,
    errors=(409,),
    response=RESPONSE,
)
@placement.reword_generation_conflict()
@run_in_transaction
def replace(call: ApiCall, connection: Connection, uuid: str) -> ApiResponse:
    """Replace the aggregates of a provider. Unknown aggregates are created.

    From 1.19 on the request needs the provider's generation and increments it.
    """
    has_generation = call.version.has(mv.AGGREGATE_GENERATIONS)
    body_uuids = call.body["aggregates"] if has_generation else call.body
    generation = call.body["resource_provider_generation"] if has_generation else None
    uuids = list(dict.fromkeys(map(canonicalize_uuid, body_uuids)))
    provider = resource_providers.lock_by_uuid(connection, uuid, generation)
    aggregates.replace(connection, provider.id, uuids, call.read_clock())
    if has_generation:
        resource_providers.bump_generations(connection, [provider.id], call.read_clock())
    else:
        resource_providers.replicate_lock(connection, provider.id)
    return _build_response(call, uuids, provider.generation + 1)


def _build_response(call: ApiCall, uuids: Iterable[str], generation: int) -> ApiResponse:
    body: dict[str, Any] = {"aggregates": list(uuids)}
    if call.version.has(mv.AGGREGATE_GENERATIONS):
        body["resource_provider_generation"] = generation
    # The removal of a membership leaves no time, so Last-Modified is always the current time.
    return placement.with_last_modified(call, body)
