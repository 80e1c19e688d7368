"""Routes of usages: of a provider, and of a project or user."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from placement_sched.api.call import Answer, Call
from placement_sched.api.placement.last_modified import latest_change
from placement_sched.api.placement.microversions import CONSUMER_TYPES, USAGES
from placement_sched.api.placement.schemas import usages as schemas
from placement_sched.api.route import Route
from placement_sched.store import usages
from placement_sched.store.usages import TypeUsage

#: Asks for the sum over all consumer types.
_ALL = "all"


def of_provider(call: Call, uuid: str) -> Answer:
    """Return how much of each of a provider's inventories is used."""
    with call.services.database.read() as connection:
        generation, used = usages.of_provider(connection, uuid)
    body = {"resource_provider_generation": generation, "usages": used}
    return Answer(body=body, last_modified=latest_change(call))


def of_project(call: Call) -> Answer:
    """Return the usage of a project, or of one of its users; by consumer type from 1.38 on."""
    project_id, user_id = call.value("project_id") or "", call.value("user_id")
    kind = call.value("consumer_type")
    shown: Mapping[str, Any]
    with call.services.database.read() as connection:
        if call.version.has(CONSUMER_TYPES):
            consumer_type = None if kind == _ALL else kind
            found = usages.of_project(
                connection, project_id, user_id=user_id, consumer_type=consumer_type
            )
            shown = _by_type(kind, found)
        else:
            shown = usages.amounts_of_project(connection, project_id, user_id)
    return Answer(body={"usages": shown}, last_modified=latest_change(call))


def _by_type(kind: str | None, found: Sequence[TypeUsage]) -> Mapping[str, Any]:
    if kind != _ALL:
        return {one.consumer_type: {**one.amounts, **_count([one])} for one in found}
    return {_ALL: {**_sum(found), **_count(found)}} if found else {}


def _sum(found: Sequence[TypeUsage]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for one in found:
        total.update(one.amounts)
    return dict(total)


def _count(found: Sequence[TypeUsage]) -> dict[str, int]:
    return {"consumer_count": sum(one.consumers for one in found)}


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/resource_providers/<uuid>/usages",
        handler=of_provider,
        policy="placement:resource_providers:usages",
        statuses=(200, 401, 403, 404, 406),
        answer=schemas.OF_PROVIDER_ANSWER,
    ),
    Route(
        method="GET",
        path="/usages",
        handler=of_project,
        policy="placement:usages",
        since=USAGES,
        query=schemas.GET,
        statuses=(200, 400, 401, 403, 404, 406),
        answer=schemas.ANSWER,
    ),
)
