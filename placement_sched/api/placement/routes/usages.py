"""Routes of usages: of a provider, and of a project or user."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from placement_sched.api.blueprint import Blueprint
from placement_sched.api.call import Answer, Call
from placement_sched.api.placement import microversions as mv
from placement_sched.api.placement.conventions import AMOUNTS, INTEGER, NAME, dated, keyed, record
from placement_sched.api.validation import Schemas
from placement_sched.model.document import Json
from placement_sched.schemas.fields import OWNER
from placement_sched.schemas.parts import an_object
from placement_sched.store.placement import usages
from placement_sched.store.placement.usages import TypeUsage

#: Asks for the sum over all consumer types.
_ALL = "all"
#: A consumer type, or what stands for all or for none.
_TYPES = "^([A-Z0-9_]+|all|unknown)$"

blueprint = Blueprint("usages", __name__)

_1_9 = {"project_id": OWNER, "user_id": OWNER}
_1_38 = {**_1_9, "consumer_type": {**OWNER, "pattern": _TYPES}}

GET = Schemas(
    (mv.USAGES, an_object(_1_9, "project_id")), (mv.CONSUMER_TYPES, an_object(_1_38, "project_id"))
)

# Consumers are counted beside what they use.
_BY_TYPE: Json = {**record(consumer_count=INTEGER), "patternProperties": {NAME: INTEGER}}

ANSWER = Schemas(
    (mv.USAGES, record(usages=AMOUNTS)), (mv.CONSUMER_TYPES, record(usages=keyed(_TYPES, _BY_TYPE)))
)

OF_PROVIDER_ANSWER = Schemas(record(resource_provider_generation=INTEGER, usages=AMOUNTS))


@blueprint.get(
    "/resource_providers/<uuid>/usages",
    policy="placement:resource_providers:usages",
    answer=OF_PROVIDER_ANSWER,
)
def of_provider(call: Call, uuid: str) -> Answer:
    """Return how much of each of a provider's inventories is used."""
    generation, used = call.read(usages.of_provider, uuid)
    return dated(call, {"resource_provider_generation": generation, "usages": used})


@blueprint.get(
    "/usages", policy="placement:usages", since=mv.USAGES, query=GET, refusals=(404,), answer=ANSWER
)
def of_project(call: Call) -> Answer:
    """Return the usage of a project, or of one of its users; by consumer type from 1.38 on."""
    project_id, user_id = call.value("project_id") or "", call.value("user_id")
    if not call.version.has(mv.CONSUMER_TYPES):
        amounts = call.read(usages.amounts_of_project, project_id, user_id)
        return dated(call, {"usages": amounts})
    kind = call.value("consumer_type")
    found = call.read(
        usages.of_project, project_id, user_id=user_id, consumer_type=None if kind == _ALL else kind
    )
    return dated(call, {"usages": _by_type(kind, found)})


def _by_type(kind: str | None, found: Sequence[TypeUsage]) -> Mapping[str, Any]:
    if kind != _ALL:
        return {one.consumer_type: {**one.amounts, **_count([one])} for one in found}
    total: Counter[str] = Counter()
    for one in found:
        total.update(one.amounts)
    return {_ALL: {**total, **_count(found)}} if found else {}


def _count(found: Sequence[TypeUsage]) -> dict[str, int]:
    return {"consumer_count": sum(one.consumers for one in found)}
