# SPDX-License-Identifier: Apache-2.0
"""Shadow results: nova's choice for each instance of an evaluated request."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy import Connection, Row, bindparam, delete, select, update

from placement_sched.db import sql
from placement_sched.db.tables import decisions, shadow_results
from placement_sched.model.context import RequestIds
from placement_sched.model.document import to_storable
from placement_sched.model.shadow_result import FAILED, PENDING, ShadowResult

_COLUMNS = shadow_results.c
_QUERY = select(
    shadow_results, decisions.c.request_id, decisions.c.global_request_id, decisions.c.flavor
).outerjoin(decisions, decisions.c.uuid == _COLUMNS.decision_uuid)
#: The column of each attribute that is stored unchanged.
_SAME = {
    "decision": "decision_uuid",
    "instance": "instance_uuid",
    **{name: name for name in ("position", "verdict", "our_host", "nova_host")},
}
#: The names of its parameters must differ from those of columns.
_UPDATE_VERDICT = (
    update(shadow_results)
    .where(
        _COLUMNS.decision_uuid == bindparam("of_decision"),
        _COLUMNS.position == bindparam("at_position"),
    )
    .values(
        verdict=bindparam("new_verdict"),
        nova_host=bindparam("new_host"),
        detail=bindparam("new_detail"),
        updated_at=bindparam("now"),
    )
)


def record(connection: Connection, results: Iterable[ShadowResult], now: datetime) -> None:
    """Record new results."""
    rows = [
        {column: getattr(result, name) for name, column in _SAME.items()}
        | {"detail": to_storable(result.detail), "created_at": now}
        for result in results
    ]
    sql.insert_rows(connection, shadow_results, rows)


def record_verdicts(connection: Connection, results: Sequence[ShadowResult], now: datetime) -> None:
    """Update recorded results with verdict, nova's host and the reason."""
    rows = [
        {
            "of_decision": result.decision,
            "at_position": result.position,
            "new_verdict": result.verdict,
            "new_host": result.nova_host,
            "new_detail": to_storable(result.detail),
            "now": now,
        }
        for result in results
    ]
    if rows:
        connection.execute(_UPDATE_VERDICT, rows)


def pending(connection: Connection) -> tuple[ShadowResult, ...]:
    """Return the results without a verdict, sorted by decision and position."""
    query = _QUERY.where(_COLUMNS.verdict == PENDING)
    order = (_COLUMNS.created_at, _COLUMNS.decision_uuid, _COLUMNS.position)
    return tuple(map(_result, connection.execute(query.order_by(*order))))


def of_decision(connection: Connection, uuid: str) -> tuple[ShadowResult, ...]:
    """Return the results of a decision, sorted by position."""
    query = _QUERY.where(_COLUMNS.decision_uuid == uuid).order_by(_COLUMNS.position)
    return tuple(map(_result, connection.execute(query)))


def since(connection: Connection, moment: datetime | None) -> tuple[ShadowResult, ...]:
    """Return the results of requests since a time (None: all), oldest first."""
    query = _QUERY if moment is None else _QUERY.where(_COLUMNS.created_at >= moment)
    order = (_COLUMNS.created_at, _COLUMNS.decision_uuid, _COLUMNS.position)
    return tuple(map(_result, connection.execute(query.order_by(*order))))


def purge(connection: Connection, decision_uuids: Sequence[str], before: datetime | None) -> None:
    """Delete the results of decisions, and failed results older than ``before``."""
    sql.change_in_batches(
        connection, delete(shadow_results), _COLUMNS.decision_uuid, decision_uuids
    )
    if before is None:
        return
    is_failed = (_COLUMNS.verdict == FAILED, _COLUMNS.created_at < before)
    connection.execute(delete(shadow_results).where(*is_failed))


def _result(row: Row[Any]) -> ShadowResult:
    return ShadowResult(
        **{name: getattr(row, column) for name, column in _SAME.items()},
        detail=orjson.loads(row.detail) if row.detail else {},
        request_ids=RequestIds(row.request_id, row.global_request_id),
        flavor=row.flavor,
        created_at=row.created_at,
    )
