"""Decisions: every answer that was given, kept for a while."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy import Connection, Row, delete, insert, select

from placement_sched.db import sql
from placement_sched.db.tables import decision_places, decisions, instances
from placement_sched.errors import NotFound
from placement_sched.model.request_ids import RequestIds
from placement_sched.model.results.decision import Decision, DecisionsWanted, PlacedInstance
from placement_sched.store import shadow_results

_COLUMNS = decisions.c
_PLACES = decision_places.c
#: What a decision keeps in columns of the same names, and what of its request's ids.
_KEPT = ("uuid", "outcome", "kind", "policy", "flavor", "project_id")
_IDS = ("request_id", "global_request_id")


def record(connection: Connection, decision: Decision, now: datetime) -> None:
    """Write a decision down, and the instances that it was about."""
    connection.execute(
        insert(decisions).values(
            **{name: getattr(decision, name) for name in _KEPT},
            **{name: getattr(decision.request_ids, name) for name in _IDS},
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
    for batch in sql.batches(rows):
        connection.execute(insert(decision_places), batch)


def by_uuid(connection: Connection, uuid: str) -> Decision:
    """Return the decision of this uuid; raises :class:`NotFound`."""
    row = connection.execute(select(decisions).where(_COLUMNS.uuid == uuid)).first()
    if row is None:
        raise NotFound(f"No decision with uuid {uuid} found", code="scheduler.not_found")
    return _decision(row, _places(connection, [uuid]).get(uuid, ()))


def search(
    connection: Connection,
    wanted: DecisionsWanted,
    *,
    marker: str | None = None,
    limit: int | None = None,
) -> tuple[Decision, ...]:
    """Return decisions, the newest first, in two statements.

    They begin after the decision of uuid ``marker``; after one that is gone there is nothing,
    as only the oldest go.
    """
    equal = {name: getattr(wanted, name) for name in (*_KEPT, *_IDS) if name != "uuid"}
    query = select(decisions).filter_by(**sql.given(**equal))
    if wanted.since is not None:
        query = query.where(_COLUMNS.created_at >= wanted.since)
    for column, place in ((_PLACES.instance_uuid, wanted.instance), (_PLACES.host, wanted.host)):
        if place is not None:
            about = select(_PLACES.decision_uuid).where(column == place)
            query = query.where(_COLUMNS.uuid.in_(about))
    at = select(_COLUMNS.id).where(_COLUMNS.uuid == marker).scalar_subquery()
    keys = None if marker is None else [at]
    query = sql.page_after(query, [(_COLUMNS.id, True)], keys, limit=limit)
    rows = connection.execute(query).all()
    places = _places(connection, [row.uuid for row in rows])
    return tuple(_decision(row, places.get(row.uuid, ())) for row in rows)


def of_instances(connection: Connection, uuids: Collection[str]) -> dict[str, Decision]:
    """Return the decision that placed each of these instances, for those that one placed."""
    rows = connection.execute(
        select(decisions, instances.c.uuid.label("instance_uuid"))
        .join(instances, instances.c.decision_uuid == decisions.c.uuid)
        .where(instances.c.uuid.in_(sorted(uuids)))
    )
    return {row.instance_uuid: _decision(row) for row in rows}


def purge(connection: Connection, before: datetime, most: int) -> int:
    """Delete the oldest decisions made before a time, ``most`` of them; return how many.

    What nova did beside them goes with them.
    """
    query = select(_COLUMNS.uuid).where(_COLUMNS.created_at < before)
    oldest = connection.scalars(query.order_by(_COLUMNS.created_at).limit(most)).all()
    sql.change_among(connection, delete(decision_places), _PLACES.decision_uuid, oldest)
    shadow_results.purge(connection, oldest, before)
    sql.change_among(connection, delete(decisions), _COLUMNS.uuid, oldest)
    return len(oldest)


def _places(connection: Connection, uuids: Collection[str]) -> dict[str, list[PlacedInstance]]:
    query = select(decision_places).order_by(_PLACES.decision_uuid, _PLACES.position)
    found = sql.rows_among(connection, query, _PLACES.decision_uuid, uuids)
    return sql.grouped(
        (row.decision_uuid, PlacedInstance(row.instance_uuid, row.host)) for row in found
    )


def _decision(row: Row[Any], places: Collection[PlacedInstance] = ()) -> Decision:
    return Decision(
        **{name: getattr(row, name) for name in _KEPT},
        digest=row.request_digest,
        request=orjson.loads(row.request),
        answer=orjson.loads(row.selections),
        places=tuple(places),
        funnel=None if row.funnel is None else orjson.loads(row.funnel),
        created_at=row.created_at,
        request_ids=RequestIds(row.request_id, row.global_request_id),
    )
