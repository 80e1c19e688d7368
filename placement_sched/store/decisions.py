"""Decisions: every answer that was given, kept for a while."""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy import Connection, Row, Select, delete, func, insert, select, union

from placement_sched.db import sql
from placement_sched.db.collations import Characters
from placement_sched.db.tables import decision_places, decisions, instances
from placement_sched.errors import NotFound
from placement_sched.model.decision import (
    Conditions,
    Decision,
    DecisionSummary,
    DecisionsWanted,
    KeptFunnel,
    PlacedInstance,
)
from placement_sched.model.document import Document, storable
from placement_sched.model.request_ids import RequestIds
from placement_sched.store import shadow_results

_COLUMNS = decisions.c
_PLACES = decision_places.c
_PLACE = insert(decision_places)
#: What a decision keeps in columns of the same names, and what of its request's ids.
_KEPT = ("uuid", "outcome", "kind", "policy", "flavor", "project_id")
_IDS = ("request_id", "global_request_id")
#: What a list shows, without the documents, which are large.
_SUMMARY = tuple(_COLUMNS[name] for name in (*_KEPT, *_IDS, "created_at"))
#: What of the decisions wanted has to be equal to a column of its name.
_EQUAL = ("outcome", "kind", "project_id", "policy", "flavor", "global_request_id")


def record(connection: Connection, decision: Decision, now: datetime) -> None:
    """Write a decision down, and the instances that it was about."""
    connection.execute(
        insert(decisions).values(
            **{name: getattr(decision, name) for name in _KEPT}
            | {"flavor": _storable_name(connection, decision.flavor)},
            **{name: getattr(decision.request_ids, name) for name in _IDS},
            request_digest=decision.digest,
            request=storable(decision.request),
            selections=storable(decision.answer),
            funnel=_written(decision.funnel),
            best=_written(decision.best or None),
            conditions=_written(decision.conditions and decision.conditions.as_json()),
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
        sql.insert_by(connection, _PLACE, batch)


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
) -> tuple[DecisionSummary, ...]:
    """Return decisions, the newest first, in two statements.

    They begin after the decision of uuid ``marker``; after one that is gone there is nothing,
    as only the oldest go.
    """
    query = _among(select(*_SUMMARY), wanted)
    at = select(_COLUMNS.id).where(_COLUMNS.uuid == marker).scalar_subquery()
    keys = None if marker is None else [at]
    query = sql.page_after(query, [(_COLUMNS.id, True)], keys, limit=limit)
    rows = connection.execute(query).all()
    places = _places(connection, [row.uuid for row in rows])
    return tuple(DecisionSummary(**_summary(row, places.get(row.uuid, ()))) for row in rows)


def count(connection: Connection, wanted: DecisionsWanted) -> int:
    """Return how many decisions there are of those wanted."""
    return connection.scalar(_among(select(func.count()), wanted)) or 0


def recent_names(connection: Connection, column: str, most: int = 1000) -> set[str]:
    """Return the flavors, policies or hosts (``column``) that the newest decisions name."""
    newest = select(_COLUMNS.uuid, _COLUMNS.flavor, _COLUMNS.policy)
    some = newest.order_by(_COLUMNS.id.desc()).limit(most).subquery()
    if column == "host":
        query = select(_PLACES.host).where(_PLACES.decision_uuid.in_(select(some.c.uuid)))
    else:
        query = select(some.c[column])
    return {name for name in connection.scalars(query.distinct()) if name is not None}


def funnels(connection: Connection, uuids: Collection[str]) -> dict[str, KeptFunnel]:
    """Return the funnel that each of these decisions keeps, and the best hosts beside it."""
    query = select(_COLUMNS.uuid, _COLUMNS.funnel, _COLUMNS.best)
    return {
        row.uuid: KeptFunnel(_read(row.funnel), tuple(_read(row.best) or ()))
        for row in sql.rows_among(connection, query, _COLUMNS.uuid, uuids)
    }


def _among(query: Select[Any], wanted: DecisionsWanted) -> Select[Any]:
    """Return the query of these decisions alone."""
    conditions: list[sql.Condition] = [
        _COLUMNS[name] == value for name in _EQUAL if (value := getattr(wanted, name)) is not None
    ]
    if wanted.request_id is not None:
        ids = (_COLUMNS[name] == wanted.request_id for name in _IDS)
        # Each of the two has an index of its own, which an OR of both would not use on MariaDB.
        found = union(*(select(_COLUMNS.uuid).where(one) for one in ids)).subquery()
        conditions.append(_COLUMNS.uuid.in_(select(found.c.uuid)))
    if wanted.since is not None:
        conditions.append(_COLUMNS.created_at >= wanted.since)
    if wanted.until is not None:
        conditions.append(_COLUMNS.created_at < wanted.until)
    for column, place in ((_PLACES.instance_uuid, wanted.instance), (_PLACES.host, wanted.host)):
        if place is not None:
            about = select(_PLACES.decision_uuid).where(column == place)
            conditions.append(_COLUMNS.uuid.in_(about))
    return query.where(*conditions)


def of_instances(connection: Connection, uuids: Collection[str]) -> dict[str, Decision]:
    """Return the decision that placed each of these instances, for those that one placed."""
    placed_by = _placed_by(connection, uuids)
    rows = sql.rows_among(connection, select(decisions), _COLUMNS.uuid, set(placed_by.values()))
    found = {row.uuid: _decision(row) for row in rows}
    return {uuid: found[one] for uuid, one in placed_by.items() if one in found}


def requests_of_instances(connection: Connection, uuids: Collection[str]) -> dict[str, Document]:
    """Return the request that placed each of these instances, for those that one placed."""
    placed_by = _placed_by(connection, uuids)
    query = select(_COLUMNS.uuid, _COLUMNS.request)
    rows = sql.rows_among(connection, query, _COLUMNS.uuid, set(placed_by.values()))
    found: dict[str, Document] = {row.uuid: orjson.loads(row.request) for row in rows}
    return {uuid: found[one] for uuid, one in placed_by.items() if one in found}


def _placed_by(connection: Connection, uuids: Collection[str]) -> dict[str, str]:
    """Return the uuid of the decision of each of these instances, which many may share.

    A decision on a thousand instances is large: it is read once, not once for each of them.
    """
    query = select(instances.c.uuid, instances.c.decision_uuid)
    query = query.where(instances.c.decision_uuid.is_not(None))
    rows = sql.rows_among(connection, query, instances.c.uuid, uuids)
    return {row.uuid: row.decision_uuid for row in rows}


def purge(
    connection: Connection, before: datetime, most: int, wanted: DecisionsWanted | None = None
) -> int:
    """Delete the oldest decisions made before a time, ``most`` of them; return how many.

    Only those ``wanted``, where that is given. What nova did beside them goes with them.
    """
    among = replace(wanted or DecisionsWanted(), until=before)
    query = _among(select(_COLUMNS.uuid), among)
    oldest = connection.scalars(query.order_by(_COLUMNS.created_at).limit(most)).all()
    sql.change_among(connection, delete(decision_places), _PLACES.decision_uuid, oldest)
    shadow_results.purge(connection, oldest, before if wanted is None else None)
    sql.change_among(connection, delete(decisions), _COLUMNS.uuid, oldest)
    return len(oldest)


def _places(connection: Connection, uuids: Collection[str]) -> dict[str, list[PlacedInstance]]:
    query = select(decision_places).order_by(_PLACES.decision_uuid, _PLACES.position)
    found = sql.rows_among(connection, query, _PLACES.decision_uuid, uuids)
    return sql.grouped(
        (row.decision_uuid, PlacedInstance(row.instance_uuid, row.host)) for row in found
    )


def _decision(row: Row[Any], places: Collection[PlacedInstance] = ()) -> Decision:
    conditions = _read(row.conditions)
    return Decision(
        **_summary(row, places),
        digest=row.request_digest,
        request=orjson.loads(row.request),
        answer=orjson.loads(row.selections),
        funnel=_read(row.funnel),
        best=_read(row.best) or (),
        conditions=conditions and Conditions.from_json(conditions),
    )


def _summary(row: Row[Any], places: Collection[PlacedInstance]) -> dict[str, Any]:
    return {
        **{name: getattr(row, name) for name in _KEPT},
        "places": tuple(places),
        "created_at": row.created_at,
        "request_ids": RequestIds(row.request_id, row.global_request_id),
    }


def _storable_name(connection: Connection, name: str | None) -> str | None:
    """Return a name with placeholders for what cannot be stored: nova may have such a flavor."""
    if name is None or name.isascii():
        return name
    return Characters.of(connection).shown(name)


def _written(document: Any) -> str | None:
    return None if document is None else storable(document)


def _read(text: str | None) -> Any:
    return None if text is None else orjson.loads(text)
