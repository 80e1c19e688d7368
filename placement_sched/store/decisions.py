# SPDX-License-Identifier: Apache-2.0
"""Recorded decisions with notices and shadow results.

A notice announces to webhooks that a request without a host would fit now. A shadow result compares
the choices of nova and of this service for an instance.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import orjson
from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    case,
    delete,
    exists,
    extract,
    func,
    insert,
    select,
    union,
)

from placement_sched.db import sql
from placement_sched.db.collations import Characters
from placement_sched.db.tables import (
    decision_notices,
    decision_places,
    decisions,
    instances,
    shadow_results,
)
from placement_sched.errors import NotFound
from placement_sched.model.context import RequestIds
from placement_sched.model.decision import (
    NO_VALID_HOST,
    SELECT,
    Conditions,
    Decision,
    DecisionCount,
    DecisionQuery,
    DecisionSummary,
    Notice,
    PlacedInstance,
    RecordedFunnel,
)
from placement_sched.model.document import to_storable
from placement_sched.model.grouping import group_rows
from placement_sched.model.shadow_result import FAILED

_COLUMNS = decisions.c
_PLACES = decision_places.c
#: Attributes of a decision, and of its request ids, that have columns of the same name.
_DECISION_ATTRIBUTES = ("uuid", "outcome", "kind", "policy", "project_id", "reason_kind")
#: Attributes of a decision whose characters a database may be unable to store.
_TEXTS = ("flavor", "stage", "reason", "reason_subject")
_IDS = ("request_id", "global_request_id")
#: The columns that a list shows, without the large JSON documents.
_LISTED = (*_DECISION_ATTRIBUTES, *_TEXTS)
_SUMMARY = tuple(_COLUMNS[name] for name in (*_LISTED, *_IDS, "created_at"))
#: Filters that compare a column of the same name for equality.
_EQUAL = (
    *("outcome", "kind", "project_id", "policy", "flavor", "stage", "reason_kind"),
    *("reason_subject", "global_request_id"),
)
#: Parts of a time to group by, coarsest first.
_TIME_PARTS = ("year", "month", "day", "hour", "minute")
_NOTICES = decision_notices.c


def record(connection: Connection, decision: Decision, now: datetime) -> None:
    """Record a decision and its instances."""

    def make_storable(name: str | None) -> str | None:
        if name is None or name.isascii():
            return name
        return Characters.read_from(connection).replace_unstorable(name)

    connection.execute(
        insert(decisions).values(
            **{name: getattr(decision, name) for name in _DECISION_ATTRIBUTES},
            **{name: make_storable(getattr(decision, name)) for name in _TEXTS},
            **{name: getattr(decision.request_ids, name) for name in _IDS},
            request_digest=decision.digest,
            request=to_storable(decision.request),
            selections=to_storable(decision.result),
            funnel=_to_json(decision.funnel),
            best=_to_json(decision.best or None),
            conditions=_to_json(decision.conditions and decision.conditions.as_json()),
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
        for position, place in enumerate(decision.instances)
    ]
    sql.insert_rows(connection, decision_places, rows)


def get_by_uuid(connection: Connection, uuid: str) -> Decision:
    """Return a decision, or raise :class:`NotFound` if it does not exist."""
    row = connection.execute(select(decisions).where(_COLUMNS.uuid == uuid)).first()
    if row is None:
        raise NotFound(f"No decision with uuid {uuid} found", code="scheduler.not_found")
    return _build_decision(row, _map_places(connection, [uuid]).get(uuid, ()))


def search(
    connection: Connection,
    filters: DecisionQuery,
    *,
    marker: str | None = None,
    limit: int | None = None,
) -> tuple[DecisionSummary, ...]:
    """Return matching decisions, newest first, in two statements.

    The list begins after the decision ``marker``. After a deleted marker the list is empty, as only
    the oldest decisions are deleted.
    """
    query = _filter(select(*_SUMMARY), filters)
    marker_id = select(_COLUMNS.id).where(_COLUMNS.uuid == marker).scalar_subquery()
    after = None if marker is None else marker_id
    query = sql.select_page_after(query, _COLUMNS.id, after, limit=limit, is_descending=True)
    rows = connection.execute(query).all()
    places = _map_places(connection, [row.uuid for row in rows])
    return tuple(DecisionSummary(**_build_summary(row, places.get(row.uuid, ()))) for row in rows)


def count(connection: Connection, filters: DecisionQuery) -> int:
    """Return the number of decisions that match the filters."""
    return connection.scalar(_filter(select(func.count()), filters)) or 0


def find_oldest_time(connection: Connection, filters: DecisionQuery) -> datetime | None:
    """Return the time of the oldest matching decision, or None."""
    time: datetime | None = connection.scalar(
        _filter(select(func.min(_COLUMNS.created_at)), filters)
    )
    return time


def count_by_value(
    connection: Connection, filters: DecisionQuery, columns: Sequence[str], limit: int
) -> tuple[DecisionCount, ...]:
    """Count decisions by most frequent values, without null in the first."""
    values, count = [_COLUMNS[name] for name in columns], func.count().label("count")
    failed = func.sum(case((_COLUMNS.outcome == NO_VALID_HOST, 1), else_=0))
    query = _filter(select(count, failed, *values).where(values[0].is_not(None)), filters)
    query = query.group_by(*values).order_by(count.desc(), *values).limit(limit)
    return tuple(
        DecisionCount(tuple(names), number, int(failures))
        for number, failures, *names in connection.execute(query)
    )


def count_by_time(
    connection: Connection, filters: DecisionQuery, unit: str
) -> list[tuple[datetime, str, int]]:
    """Count by minute, hour or day, as tuples of begin, outcome and number."""
    names = _TIME_PARTS[: _TIME_PARTS.index(unit) + 1]
    parts = [extract(name, _COLUMNS.created_at) for name in names]
    columns: list[ColumnElement[Any]] = [*parts, _COLUMNS.outcome, func.count()]
    query = _filter(select(*columns), filters).group_by(*parts, _COLUMNS.outcome)
    times = []
    for *time, outcome, number in connection.execute(query):
        # Databases return parts of a time as numbers of any type.
        begin = datetime(*map(int, time), tzinfo=UTC)  # type: ignore[misc, arg-type]
        times.append((begin.replace(tzinfo=None), outcome, number))
    return times


def list_recent_names(connection: Connection, column: str, limit: int = 1000) -> set[str]:
    """Return the values of a column in the ``limit`` newest decisions.

    ``column`` is ``flavor``, ``policy``, ``reason_kind`` or ``host``.
    """
    newest = select(_COLUMNS.uuid, _COLUMNS.flavor, _COLUMNS.policy, _COLUMNS.reason_kind)
    recent = newest.order_by(_COLUMNS.id.desc()).limit(limit).subquery()
    if column == "host":
        query = select(_PLACES.host).where(_PLACES.decision_uuid.in_(select(recent.c.uuid)))
    else:
        query = select(recent.c[column])
    return {name for name in connection.scalars(query.distinct()) if name is not None}


def map_funnels(connection: Connection, uuids: Collection[str]) -> dict[str, RecordedFunnel]:
    """Map the uuids of decisions to their recorded funnels and best hosts."""
    query = select(_COLUMNS.uuid, _COLUMNS.funnel, _COLUMNS.best)
    return {
        row.uuid: RecordedFunnel(_from_json(row.funnel), tuple(_from_json(row.best) or ()))
        for row in sql.select_in_batches(connection, query, _COLUMNS.uuid, uuids)
    }


def _filter(query: Select[Any], filters: DecisionQuery) -> Select[Any]:
    conditions: list[sql.Condition] = [
        _COLUMNS[name] == value for name in _EQUAL if (value := getattr(filters, name)) is not None
    ]
    if filters.request_id is not None:
        ids = (_COLUMNS[name] == filters.request_id for name in _IDS)
        # A union, because MariaDB does not use the two indexes for an OR.
        matching = union(*(select(_COLUMNS.uuid).where(column) for column in ids)).subquery()
        conditions.append(_COLUMNS.uuid.in_(select(matching.c.uuid)))
    if filters.since is not None:
        conditions.append(_COLUMNS.created_at >= filters.since)
    if filters.until is not None:
        conditions.append(_COLUMNS.created_at < filters.until)
    for column, place in ((_PLACES.instance_uuid, filters.instance), (_PLACES.host, filters.host)):
        if place is not None:
            with_place = select(_PLACES.decision_uuid).where(column == place)
            conditions.append(_COLUMNS.uuid.in_(with_place))
    return query.where(*conditions)


def map_by_instance(connection: Connection, uuids: Collection[str]) -> dict[str, Decision]:
    """Map the uuids of instances to the decisions that placed them."""
    query = select(instances.c.uuid, instances.c.decision_uuid)
    query = query.where(instances.c.decision_uuid.is_not(None))
    placed_by = dict(map(tuple, sql.select_in_batches(connection, query, instances.c.uuid, uuids)))
    # Instances may share a large decision, which is read only once.
    rows = sql.select_in_batches(
        connection, select(decisions), _COLUMNS.uuid, set(placed_by.values())
    )
    loaded = {row.uuid: _build_decision(row) for row in rows}
    return {uuid: loaded[decision] for uuid, decision in placed_by.items() if decision in loaded}


def purge(
    connection: Connection, before: datetime, limit: int, filters: DecisionQuery | None = None
) -> int:
    """Delete the ``limit`` oldest decisions before a time.

    Returns the number of deleted decisions. ``filters`` restricts the deletion to matching
    decisions. The places, notices and shadow results of the deleted decisions are also deleted.
    Without ``filters``, all failed shadow results before the time are deleted too.
    """
    expired = replace(filters or DecisionQuery(), until=before)
    query = _filter(select(_COLUMNS.uuid), expired)
    oldest = connection.scalars(query.order_by(_COLUMNS.created_at).limit(limit)).all()
    sql.change_in_batches(connection, delete(decisions), _COLUMNS.uuid, oldest)
    # Deleted after the decision, because record_notice locks the decision.
    for table in (decision_places, shadow_results, decision_notices):
        sql.change_in_batches(connection, delete(table), table.c.decision_uuid, oldest)
    if filters is None:
        is_failed = (shadow_results.c.verdict == FAILED, shadow_results.c.created_at < before)
        connection.execute(delete(shadow_results).where(*is_failed))
    return len(oldest)


def _map_places(connection: Connection, uuids: Collection[str]) -> dict[str, list[PlacedInstance]]:
    query = select(decision_places).order_by(_PLACES.decision_uuid, _PLACES.position)
    rows = sql.select_in_batches(connection, query, _PLACES.decision_uuid, uuids)
    return group_rows(
        (row.decision_uuid, PlacedInstance(row.instance_uuid, row.host)) for row in rows
    )


def _build_decision(row: Row[Any], places: Collection[PlacedInstance] = ()) -> Decision:
    conditions = _from_json(row.conditions)
    return Decision(
        **_build_summary(row, places),
        digest=row.request_digest,
        request=orjson.loads(row.request),
        result=orjson.loads(row.selections),
        funnel=_from_json(row.funnel),
        best=_from_json(row.best) or (),
        conditions=conditions and Conditions.from_json(conditions),
    )


def _build_summary(row: Row[Any], places: Collection[PlacedInstance]) -> dict[str, Any]:
    return {
        **{name: getattr(row, name) for name in _LISTED},
        "instances": tuple(places),
        "created_at": row.created_at,
        "request_ids": RequestIds(row.request_id, row.global_request_id),
    }


def _to_json(document: Any) -> str | None:
    return None if document is None else to_storable(document)


def _from_json(text: str | None) -> Any:
    return None if text is None else orjson.loads(text)


def list_waiting_for_notice(
    connection: Connection, policies: Collection[str], since: datetime, limit: int
) -> list[str]:
    """List decisions without a host that may be announced to a webhook.

    Returns uuids, newest first. A decision is left out if a later selection includes any of its
    instances, or if its notice has ended.
    """
    later, place, other = decisions.alias(), decision_places.alias(), decision_places.alias()
    is_replaced = exists(
        select(place.c.position)
        .join(other, other.c.instance_uuid == place.c.instance_uuid)
        .join(later, later.c.uuid == other.c.decision_uuid)
        .where(
            place.c.decision_uuid == decisions.c.uuid,
            later.c.kind == SELECT,
            later.c.id > decisions.c.id,
        )
    )
    has_ended = exists(
        select(_NOTICES.attempts).where(
            _NOTICES.decision_uuid == decisions.c.uuid, _NOTICES.ended_at.is_not(None)
        )
    )
    query = select(decisions.c.uuid).where(
        decisions.c.outcome == NO_VALID_HOST,
        decisions.c.kind == SELECT,
        decisions.c.policy.in_(sorted(policies)),
        decisions.c.created_at >= since,
        ~is_replaced,
        ~has_ended,
    )
    return list(connection.scalars(query.order_by(decisions.c.id.desc()).limit(limit)))


def find_notice(connection: Connection, uuid: str) -> Notice | None:
    """Return the notice of a decision, or None before the first attempt."""
    row = connection.execute(select(decision_notices).where(_NOTICES.decision_uuid == uuid)).first()
    if row is None:
        return None
    return Notice(uuid, row.attempts, tuple(orjson.loads(row.pending)), row.ended_at)


def record_notice(connection: Connection, notice: Notice, now: datetime) -> None:
    """Record the state of a notice, unless its decision was deleted.

    The lock of the decision delays its deletion. Galera does not replicate the lock: a notice stays
    if another node deletes its decision at the same time.
    """
    decision = select(_COLUMNS.id).where(_COLUMNS.uuid == notice.decision)
    if connection.scalar(decision.with_for_update(read=True)) is None:
        return
    row = {
        "decision_uuid": notice.decision,
        "attempts": notice.attempts,
        "pending": orjson.dumps(notice.pending).decode(),
        "ended_at": notice.ended_at,
        "created_at": now,
        "updated_at": now,
    }
    changing = ("attempts", "pending", "ended_at", "updated_at")
    sql.insert_or_update(
        connection, decision_notices, [row], key=("decision_uuid",), changing=changing
    )
