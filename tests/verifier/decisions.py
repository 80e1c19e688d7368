# SPDX-License-Identifier: Apache-2.0
"""Comparison of decisions with their requests, places and claims."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy import Connection, Select, select

from placement_sched.db import sql
from placement_sched.db.collations import is_same_uuid
from placement_sched.db.tables import (
    allocations,
    consumers,
    decision_places,
    decisions,
    instances,
    resource_classes,
    resource_providers,
)
from placement_sched.model.decision import SELECTED
from placement_sched.model.grouping import split_batches
from placement_sched.model.names import canonicalize_uuid
from placement_sched.store.checks import IS_CLAIM, MAY_BE_CLAIMED
from tests.verifier.model import AllocatedAmounts, Fault, FaultsWithValues

_INSTANCES, _CONSUMERS = instances.c, consumers.c
_DECISIONS, _PLACES = decisions.c, decision_places.c
_INSTANCE_DECISIONS = decisions.alias("recorded")
#: Maximum number of decisions that are compared, the latest first.
MAX_COMPARED_DECISIONS = 10_000
#: Number of decisions in a SELECT. Each request may be as large as the body of an API request.
_DECISIONS_PER_BATCH = 100
#: The generation of a consumer without writes after its claim.
_GENERATION_AFTER_CLAIM = 1


def build_fault_queries() -> Mapping[Fault, Select[Any]]:
    names = (_INSTANCES.uuid.label("instance"), _DECISIONS.uuid.label("decision"))
    placed_by = select(*names, _DECISIONS.outcome, _DECISIONS.kind)
    placed = sa.exists().where(
        _PLACES.decision_uuid == _DECISIONS.uuid, _PLACES.instance_uuid == _INSTANCES.uuid
    )
    return {
        Fault.NO_DECISION: select(_PLACES.instance_uuid, _PLACES.decision_uuid)
        .outerjoin(decisions, _DECISIONS.uuid == _PLACES.decision_uuid)
        .where(_DECISIONS.id.is_(None)),
        Fault.REJECTED_DECISION: placed_by.join(
            decisions, _INSTANCES.decision_uuid == _DECISIONS.uuid
        ).where(sa.or_(~IS_CLAIM, ~placed)),
    }


def find_decision_faults(connection: Connection) -> FaultsWithValues:
    newest = select(_DECISIONS.uuid).order_by(_DECISIONS.id.desc()).limit(MAX_COMPARED_DECISIONS)
    columns = (_DECISIONS.uuid, _DECISIONS.selections, _DECISIONS.request, _DECISIONS.conditions)
    for batch in split_batches(connection.scalars(newest).all(), _DECISIONS_PER_BATCH):
        rows = list(sql.select_in_batches(connection, select(*columns), _DECISIONS.uuid, batch))
        responses = {row.uuid: _parse_json_document(row.selections) for row in rows}
        query = _build_decision_places_query()
        places = list(sql.select_in_batches(connection, query, _PLACES.decision_uuid, batch))
        held = read_allocated_amounts(connection, [place.instance for place in places])
        placed: dict[str, dict[int, str]] = defaultdict(dict)
        for place in places:
            placed[place.decision][place.position] = canonicalize_uuid(place.instance)
            holds = held.get(place.instance, {})
            yield from _find_faults_of_place(place, responses.get(place.decision), holds)
        for row in rows:
            # Old releases recorded neither conditions nor places.
            if row.conditions is not None:
                yield from _find_faults_of_request(
                    row, responses[row.uuid], placed.get(row.uuid, {})
                )


def _build_decision_places_query() -> Select[Any]:
    """Return a query for places, with the claims of their instances.

    A claim is ``unwritten`` if nothing was written to its consumer afterwards. It is ``unchanged``
    if the consumer also held nothing before, as in an evacuation, and was not created again, as
    nova does when it claims an alternate host.
    """
    own = _INSTANCES.decision_uuid == _DECISIONS.uuid
    is_unwritten = sa.and_(own, IS_CLAIM, _CONSUMERS.generation == _GENERATION_AFTER_CLAIM)
    conditions = {
        "is_later": sa.and_(IS_CLAIM, _DECISIONS.id > _INSTANCE_DECISIONS.c.id),
        "is_unwritten": is_unwritten,
        "is_unchanged": sa.and_(is_unwritten, MAY_BE_CLAIMED),
    }
    return (
        select(
            _PLACES.decision_uuid.label("decision"),
            _PLACES.position,
            _PLACES.instance_uuid.label("instance"),
            _PLACES.host,
            _DECISIONS.outcome,
            _INSTANCE_DECISIONS.c.uuid.label("recorded"),
            _CONSUMERS.created_at.label("made"),
            _DECISIONS.created_at.label("at"),
            *(sa.case((holds, 1), else_=0).label(name) for name, holds in conditions.items()),
        )
        .join(decisions, _DECISIONS.uuid == _PLACES.decision_uuid)
        .outerjoin(instances, _INSTANCES.uuid == _PLACES.instance_uuid)
        .outerjoin(_INSTANCE_DECISIONS, _INSTANCE_DECISIONS.c.uuid == _INSTANCES.decision_uuid)
        .outerjoin(consumers, is_same_uuid(_CONSUMERS.uuid, _PLACES.instance_uuid))
    )


def _parse_json_document(text: str) -> Any:
    try:
        return orjson.loads(text)
    except ValueError:
        return None


def _find_faults_of_place(place: Any, response: Any, held: AllocatedAmounts) -> FaultsWithValues:
    values = {"instance": place.instance, "decision": place.decision, "host": place.host}
    try:
        best = response["selections"][place.position][0]
        chosen, request = best["service_host"], best["allocation_request"]
        claimed = _sum_claimed_amounts(request)
    except (AttributeError, LookupError, TypeError):
        if place.outcome == SELECTED:
            yield Fault.DECISION_UNREADABLE, values
            return
        chosen, request, claimed = None, None, {}
    if chosen != place.host:
        yield Fault.PLACE_UNLIKE_DECISION, {**values, "chosen": chosen}
    if request is None:  # for example a rebuild
        claimed = {}
    elif place.is_later:
        yield Fault.INSTANCE_OF_EARLIER_DECISION, {**values, "recorded": place.recorded}
    elif place.is_unwritten and place.made < place.at:
        yield Fault.CLAIM_BEFORE_DECISION, values
    if place.is_unchanged and claimed != held:
        yield Fault.CLAIM_DIFFERS, {**values, "claimed": claimed, "held": held}


def _sum_claimed_amounts(request: Any) -> AllocatedAmounts:
    parts = {} if request is None else request["allocations"]
    return {
        (provider, name): amount
        for provider, part in parts.items()
        for name, amount in part["resources"].items()
    }


def _find_faults_of_request(row: Any, response: Any, placed: Mapping[int, str]) -> FaultsWithValues:
    """Yield the positions with different instances in the request and in the places."""
    request = _parse_json_document(row.request)
    try:
        named = request.get("instance_uuids") or response["instance_uuids"]
        requested = dict(enumerate(map(canonicalize_uuid, named)))
    except (AttributeError, LookupError, TypeError):
        yield Fault.DECISION_UNREADABLE, {"decision": row.uuid, "request": request}
        return
    for position in sorted(requested.keys() | placed.keys()):
        if requested.get(position) != placed.get(position):
            values = {"requested": requested.get(position), "placed": placed.get(position)}
            yield (
                Fault.DECISION_WITHOUT_PLACE,
                {"decision": row.uuid, "position": position, **values},
            )


def read_allocated_amounts(
    connection: Connection, uuids: Iterable[str]
) -> dict[str, dict[tuple[str, str], int]]:
    columns = allocations.c
    query = (
        select(
            columns.consumer_id, resource_providers.c.uuid, resource_classes.c.name, columns.used
        )
        .join(resource_providers, resource_providers.c.id == columns.resource_provider_id)
        .join(resource_classes, resource_classes.c.id == columns.resource_class_id)
    )
    held: dict[str, dict[tuple[str, str], int]] = {}
    for consumer, provider, name, used in sql.select_in_batches(
        connection, query, columns.consumer_id, uuids
    ):
        held.setdefault(consumer, {})[provider, name] = used
    return held
