# SPDX-License-Identifier: Apache-2.0
"""Comparison of decisions with the allocations of their instances."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

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
from placement_sched.model.decision import SELECT, SELECTED
from placement_sched.store.checks import IS_CLAIM, MAY_BE_CLAIMED
from tests.verifier.model import Fault, HeldAmounts

_INSTANCES = instances.c
_DECISIONS, _PLACES, _CONSUMERS = decisions.c, decision_places.c, consumers.c
#: The generation of a consumer without writes after its claim.
AS_CLAIMED = 1


def fault_queries() -> Mapping[Fault, Select[Any]]:
    decided = _INSTANCES.decision_uuid == _DECISIONS.uuid
    names = (_INSTANCES.uuid.label("instance"), _DECISIONS.uuid.label("decision"))
    placed_by = select(*names, _DECISIONS.outcome, _DECISIONS.kind).join(decisions, decided)
    placed = sa.exists().where(
        _PLACES.decision_uuid == _DECISIONS.uuid, _PLACES.instance_uuid == _INSTANCES.uuid
    )
    return {
        Fault.NO_DECISION: select(
            _PLACES.instance_uuid.label("instance"), _PLACES.decision_uuid.label("decision")
        )
        .outerjoin(decisions, _DECISIONS.uuid == _PLACES.decision_uuid)
        .where(_DECISIONS.id.is_(None)),
        Fault.REFUSED_DECISION: placed_by.where(sa.or_(~IS_CLAIM, ~placed)),
    }


class UnchangedClaim(NamedTuple):
    """An instance without writes after its claim.

    ``claimed`` has the amounts of the decision, ``held`` the allocations, ``at`` the time of
    the decision.
    """

    instance: str
    decision: str
    at: datetime | None
    claimed: HeldAmounts
    held: HeldAmounts


class UnreadableAnswer(NamedTuple):
    """An instance whose claim cannot be read from the selections of its decision."""

    instance: str
    decision: str
    position: int


def unchanged_claims(
    connection: Connection, limit: int
) -> Iterator[UnchangedClaim | UnreadableAnswer]:
    """Yield the instances of the last decisions without later writes to their consumers.

    ``limit`` is the maximum number of decisions. Instances that had allocations before the
    claim (an evacuation) are left out. So are instances whose consumer was deleted and created
    again, as nova does when it claims an alternate host.
    """
    newest = (
        select(_DECISIONS.id, _DECISIONS.uuid)
        .where(_DECISIONS.outcome == SELECTED, _DECISIONS.kind == SELECT)
        .order_by(_DECISIONS.id.desc())
        .limit(limit)
    )
    uuids = [uuid for _, uuid in connection.execute(newest).all()]
    for batch in sql.batches(uuids, sql.AT_ONCE):
        yield from _unchanged_claims_of(connection, batch)


def _unchanged_claims_of(
    connection: Connection, uuids: tuple[str, ...]
) -> Iterator[UnchangedClaim | UnreadableAnswer]:
    query = (
        select(
            _PLACES.decision_uuid, _PLACES.position, _PLACES.instance_uuid, _DECISIONS.created_at
        )
        .join(
            instances,
            sa.and_(
                _INSTANCES.uuid == _PLACES.instance_uuid,
                _INSTANCES.decision_uuid == _PLACES.decision_uuid,
            ),
        )
        .join(consumers, is_same_uuid(_CONSUMERS.uuid, _INSTANCES.uuid))
        .join(decisions, _DECISIONS.uuid == _PLACES.decision_uuid)
        .where(_CONSUMERS.generation == AS_CLAIMED, MAY_BE_CLAIMED)
    )
    places = list(sql.select_in_batches(connection, query, _PLACES.decision_uuid, uuids))
    decision_uuids = sorted({decision for decision, *_ in places})
    answers = select(_DECISIONS.uuid, _DECISIONS.selections)
    chosen = {
        uuid: parse_document(text)
        for uuid, text in sql.select_in_batches(
            connection, answers, _DECISIONS.uuid, decision_uuids
        )
    }
    held = held_amounts(connection, [instance for _, _, instance, _ in places])
    for decision, position, instance, at in places:
        claimed = _requested_amounts(chosen.get(decision), position)
        if claimed is None:
            yield UnreadableAnswer(instance, decision, position)
        else:
            yield UnchangedClaim(instance, decision, at, claimed, held.get(instance, {}))


def parse_document(text: str) -> Any:
    try:
        return orjson.loads(text)
    except ValueError:
        return None


def _requested_amounts(answer: Any, position: int) -> dict[tuple[str, str], int] | None:
    try:
        request = answer["selections"][position][0]["allocation_request"]
        parts = {} if request is None else request["allocations"]
        return {
            (provider, name): amount
            for provider, part in parts.items()
            for name, amount in part["resources"].items()
        }
    except (AttributeError, LookupError, TypeError):
        return None


def held_amounts(
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
