# SPDX-License-Identifier: Apache-2.0
"""Comparison of decisions with their requests, places and claims."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection, Select, select

from placement_sched.db import sql
from placement_sched.db.collations import is_same_uuid
from placement_sched.db.tables import consumers, decision_places, decisions, instances
from placement_sched.model.decision import SELECT, SELECTED
from placement_sched.model.names import canonical_uuid
from tests.verifier.recorded_claims import AS_CLAIMED, UnreadableAnswer, parse_document

_DECISIONS, _PLACES = decisions.c, decision_places.c
_INSTANCES, _CONSUMERS = instances.c, consumers.c
_RECORDED = decisions.alias("recorded")
_IS_CLAIM = sa.and_(_DECISIONS.outcome == SELECTED, _DECISIONS.kind == SELECT)
#: Maximum number of requests in a SELECT. Each may be as large as the body of an API request.
_REQUESTS_PER_BATCH = 100


class MisplacedInstance(NamedTuple):
    """An instance whose place is not the chosen host. None stands for no host."""

    instance: str
    decision: str
    host: str | None
    chosen: str | None


class RepeatedDecision(NamedTuple):
    """An instance whose record names a decision before the last claim."""

    instance: str
    decision: str
    later: str


class ClaimedBefore(NamedTuple):
    """An instance whose record names a decision that is later than its claim."""

    instance: str
    decision: str


class UnplacedInstance(NamedTuple):
    """A position with different instances in the request and in the places of its decision.

    ``requested`` and ``placed`` describe these instances.
    """

    decision: str
    position: int
    requested: str
    placed: str


class RequestUnreadable(NamedTuple):
    """A decision whose request names no instances."""

    uuid: str
    reason: str = "it names no instances"
    what: str = "decision"


DecisionFault = (
    MisplacedInstance
    | RepeatedDecision
    | ClaimedBefore
    | UnplacedInstance
    | RequestUnreadable
    | UnreadableAnswer
)


def find_faults(connection: Connection, limit: int) -> Iterator[DecisionFault]:
    newest = select(_DECISIONS.uuid).order_by(_DECISIONS.id.desc()).limit(limit)
    for batch in sql.batches(connection.scalars(newest).all(), sql.AT_ONCE):
        answers = select(_DECISIONS.uuid, _DECISIONS.selections)
        chosen = {
            uuid: parse_document(text)
            for uuid, text in sql.select_in_batches(connection, answers, _DECISIONS.uuid, batch)
        }
        placed: dict[str, dict[int, str]] = defaultdict(dict)
        for row in sql.select_in_batches(connection, _places_query(), _PLACES.decision_uuid, batch):
            placed[row.decision][row.position] = row.instance
            yield from _faults_of_place(row, chosen.get(row.decision))
        yield from _faults_of_requests(connection, batch, chosen, placed)


def _places_query() -> Select[Any]:
    own = _INSTANCES.decision_uuid == _DECISIONS.uuid
    # A claim creates the consumer, or raises the generation of an existing consumer.
    is_unwritten = sa.and_(own, _CONSUMERS.generation == AS_CLAIMED)
    return (
        select(
            _PLACES.decision_uuid.label("decision"),
            _PLACES.position,
            _PLACES.instance_uuid.label("instance"),
            _PLACES.host,
            _DECISIONS.outcome,
            _RECORDED.c.uuid.label("recorded"),
            _count_if(sa.and_(_IS_CLAIM, _DECISIONS.id > _RECORDED.c.id)).label("is_later"),
            _count_if(sa.and_(_IS_CLAIM, is_unwritten)).label("is_unwritten"),
            _CONSUMERS.created_at.label("made"),
            _DECISIONS.created_at.label("at"),
        )
        .join(decisions, _DECISIONS.uuid == _PLACES.decision_uuid)
        .outerjoin(instances, _INSTANCES.uuid == _PLACES.instance_uuid)
        .outerjoin(_RECORDED, _RECORDED.c.uuid == _INSTANCES.decision_uuid)
        .outerjoin(consumers, is_same_uuid(_CONSUMERS.uuid, _PLACES.instance_uuid))
    )


def _count_if(condition: sa.ColumnElement[bool]) -> sa.ColumnElement[int]:
    return sa.case((condition, 1), else_=0)


def _faults_of_place(row: Any, answer: Any) -> Iterator[DecisionFault]:
    try:
        best = answer["selections"][row.position][0]
        chosen, claims = best["service_host"], best["allocation_request"] is not None
    except (LookupError, TypeError):
        if row.outcome == SELECTED:
            yield UnreadableAnswer(row.instance, row.decision, row.position)
            return
        chosen, claims = None, False
    if chosen != row.host:
        yield MisplacedInstance(row.instance, row.decision, row.host, chosen)
    if claims and row.is_later:  # the decision of a rebuild claims nothing
        yield RepeatedDecision(row.instance, row.recorded, row.decision)
    # Compared in Python, because a time may be unreadable.
    created, at = row.made, row.at
    if claims and row.is_unwritten and created is not None and at is not None and created < at:
        yield ClaimedBefore(row.instance, row.decision)


def _faults_of_requests(
    connection: Connection,
    uuids: Sequence[str],
    chosen: Mapping[str, Any],
    placed: Mapping[str, Mapping[int, str]],
) -> Iterator[DecisionFault]:
    """Yield the positions with different instances in the request and in the places.

    Decisions without conditions are ignored. Old releases recorded no places, and the upgrade
    of the schema added places only for instances that still had a record.
    """
    query = select(_DECISIONS.uuid, _DECISIONS.request).where(_DECISIONS.conditions.is_not(None))
    for batch in sql.batches(uuids, _REQUESTS_PER_BATCH):
        for uuid, text in sql.select_in_batches(connection, query, _DECISIONS.uuid, batch):
            requested = _requested_instances(parse_document(text), chosen.get(uuid))
            if requested is None:
                yield RequestUnreadable(uuid)
                continue
            places = {at: canonical_uuid(instance) for at, instance in placed.get(uuid, {}).items()}
            for at in sorted(requested.keys() | places.keys()):
                if requested.get(at) != places.get(at):
                    yield UnplacedInstance(
                        uuid,
                        at,
                        _describe_instance(requested.get(at)),
                        _describe_instance(places.get(at)),
                    )


def _requested_instances(request: Any, answer: Any) -> dict[int, str] | None:
    try:
        named = request.get("instance_uuids") or answer["instance_uuids"]
        return dict(enumerate(map(canonical_uuid, named)))
    except (AttributeError, LookupError, TypeError):
        return None


def _describe_instance(instance: str | None) -> str:
    return "no instance" if instance is None else f"instance {instance}"
