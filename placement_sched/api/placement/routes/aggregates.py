"""Routes of a provider's aggregates ("Resource provider aggregates" of the API reference)."""

from collections.abc import Iterable
from typing import Any

from placement_sched.api.call import Answer, Call
from placement_sched.api.placement import phrases, subject
from placement_sched.api.placement.last_modified import latest_change
from placement_sched.api.placement.microversions import AGGREGATE_GENERATIONS, PROVIDER_AGGREGATES
from placement_sched.api.placement.params import normal_uuid
from placement_sched.api.placement.schemas import aggregates as schemas
from placement_sched.api.route import Route
from placement_sched.db.connection import Connection
from placement_sched.store import aggregates, resource_providers


def show(call: Call, uuid: str) -> Answer:
    """Return the aggregates of a provider."""
    with call.services.database.read() as connection:
        provider = resource_providers.by_uuid(connection, uuid)
        found = aggregates.of_provider(connection, provider.id)
    return _answer(call, found, provider.generation)


def replace(call: Call, uuid: str) -> Answer:
    """Make these the only aggregates of a provider; those not known yet come to be.

    From 1.19 on that needs and bumps the provider's generation; before, it does neither.
    """
    counted = call.version.has(AGGREGATE_GENERATIONS)
    given = call.body["aggregates"] if counted else call.body
    generation = call.body["resource_provider_generation"] if counted else None
    uuids = list(dict.fromkeys(normal_uuid(text) for text in given))

    def work(connection: Connection) -> int:
        provider = resource_providers.locked_by_uuid(connection, uuid, generation)
        aggregates.replace(connection, provider.id, uuids, call.now())
        if counted:
            resource_providers.bump_generations(connection, [provider.id], call.now())
        return provider.generation + 1

    with phrases.generation_changed():
        return _answer(call, uuids, call.services.database.write(work))


def _answer(call: Call, uuids: Iterable[str], generation: int) -> Answer:
    body: dict[str, Any] = {"aggregates": list(uuids)}
    if call.version.has(AGGREGATE_GENERATIONS):
        body["resource_provider_generation"] = generation
    # Nothing tells when a membership ended, so an answer is never older than now.
    return Answer(body=body, last_modified=latest_change(call))


_PATH = "/resource_providers/<uuid>/aggregates"
_POLICY = "placement:resource_providers:aggregates"

ROUTES = (
    Route(
        method="GET",
        path=_PATH,
        handler=show,
        policy=f"{_POLICY}:list",
        since=PROVIDER_AGGREGATES,
        statuses=(200, 401, 403, 404, 406),
        answer=schemas.ANSWER,
    ),
    Route(
        method="PUT",
        path=_PATH,
        handler=replace,
        policy=f"{_POLICY}:update",
        since=PROVIDER_AGGREGATES,
        body=schemas.PUT,
        subject=subject.provider,
        statuses=(200, 400, 401, 403, 404, 409, 415),
        answer=schemas.ANSWER,
    ),
)
