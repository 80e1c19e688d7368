"""Decisions: every answer that was given, kept for a while."""

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy import Connection, Row, delete, insert, select

from placement_sched.db.among import among
from placement_sched.db.batches import batches
from placement_sched.db.tables import decision_places, decisions, instances
from placement_sched.errors import NotFound
from placement_sched.model.decision import Decision, DecisionsWanted, Place
from placement_sched.model.request_ids import RequestIds

_COLUMNS = decisions.c
_PLACES = decision_places.c


def record(connection: Connection, decision: Decision, now: datetime) -> None:
    """Write a decision down, and the instances that it was about."""
    connection.execute(
        insert(decisions).values(
            uuid=decision.uuid,
            outcome=decision.outcome,
            kind=decision.kind,
            policy=decision.policy,
            flavor=decision.flavor,
            project_id=decision.project_id,
            request_id=decision.request_ids.request_id,
            global_request_id=decision.request_ids.global_request_id,
            request_digest=decision.digest,
            request=orjson.dumps(decision.request).decode(),
            selections=orjson.dumps(decision.answer).decode(),
            funnel=None if decision.funnel is None else orjson.dumps(decision.funnel).decode(),
            created_at=now,
        )
    )
    rows = [
        {
            "decision_uuid": decision.uuid,
            "position": position,
            "instance_uuid": place.instance,
            "host": place.host,
        }
        for position, place in enumerate(decision.places)
    ]
    for batch in batches(rows):
        connection.execute(insert(decision_places), batch)


def by_uuid(connection: Connection, uuid: str) -> Decision:
    """Return the decision of this uuid; raises :class:`NotFound`."""
    row = connection.execute(select(decisions).where(_COLUMNS.uuid == uuid)).first()
    if row is None:
        raise NotFound(f"No decision with uuid {uuid} found", code="scheduler.not_found")
    return _decision(row, _places(connection, [uuid])[uuid])


def search(
    connection: Connection,
    wanted: DecisionsWanted,
    *,
    marker: str | None = None,
    limit: int | None = None,
) -> tuple[Decision, ...]:
    """Return decisions, the newest first, in two statements.

    They begin behind the decision of uuid ``marker``; behind one that is gone there is nothing,
    as only the oldest go.
    """
    query = select(decisions).order_by(_COLUMNS.id.desc()).limit(limit)
    for column in (
        _COLUMNS.outcome,
        _COLUMNS.kind,
        _COLUMNS.policy,
        _COLUMNS.flavor,
        _COLUMNS.project_id,
        _COLUMNS.request_id,
        _COLUMNS.global_request_id,
    ):
        value = getattr(wanted, column.name)
        query = query if value is None else query.where(column == value)
    if wanted.since is not None:
        query = query.where(_COLUMNS.created_at >= wanted.since)
    if marker is not None:
        at = select(_COLUMNS.id).where(_COLUMNS.uuid == marker).scalar_subquery()
        query = query.where(_COLUMNS.id < at)
    for column, place in (
        (_PLACES.instance_uuid, wanted.instance),
        (_PLACES.host, wanted.host),
    ):
        if place is not None:
            about = select(_PLACES.decision_uuid).where(column == place)
            query = query.where(_COLUMNS.uuid.in_(about))
    rows = connection.execute(query).all()
    places = _places(connection, [row.uuid for row in rows])
    return tuple(_decision(row, places[row.uuid]) for row in rows)


def of_instances(connection: Connection, uuids: Collection[str]) -> dict[str, Decision]:
    """Return the decision that placed each of these instances, for those that one placed."""
    rows = connection.execute(
        select(decisions, instances.c.uuid.label("instance_uuid"))
        .join(instances, instances.c.decision_uuid == decisions.c.uuid)
        .where(instances.c.uuid.in_(sorted(uuids)))
    )
    return {row.instance_uuid: _decision(row) for row in rows}


def purge(connection: Connection, before: datetime, most: int) -> int:
    """Delete the oldest decisions made before a time, ``most`` of them; return how many."""
    query = select(_COLUMNS.uuid).where(_COLUMNS.created_at < before)
    oldest = connection.scalars(query.order_by(_COLUMNS.created_at).limit(most)).all()
    if oldest:
        connection.execute(
            delete(decision_places).where(among(connection, _PLACES.decision_uuid, oldest))
        )
        connection.execute(delete(decisions).where(among(connection, _COLUMNS.uuid, oldest)))
    return len(oldest)


def _places(connection: Connection, uuids: Collection[str]) -> dict[str, list[Place]]:
    found: dict[str, list[Place]] = defaultdict(list)
    query = select(decision_places).order_by(_PLACES.decision_uuid, _PLACES.position)
    for batch in batches(uuids):
        for row in connection.execute(query.where(among(connection, _PLACES.decision_uuid, batch))):
            found[row.decision_uuid].append(Place(row.instance_uuid, row.host))
    return found


def _decision(row: Row[Any], places: Collection[Place] = ()) -> Decision:
    return Decision(
        uuid=row.uuid,
        outcome=row.outcome,
        project_id=row.project_id,
        digest=row.request_digest,
        request=orjson.loads(row.request),
        answer=orjson.loads(row.selections),
        places=tuple(places),
        funnel=None if row.funnel is None else orjson.loads(row.funnel),
        created_at=row.created_at,
        request_ids=RequestIds(row.request_id, row.global_request_id),
        kind=row.kind,
        policy=row.policy,
        flavor=row.flavor,
    )
