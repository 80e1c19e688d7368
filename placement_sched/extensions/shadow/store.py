# SPDX-License-Identifier: Apache-2.0
"""Shadow results, which compare hosts of nova with hosts of this service."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy import Row, bindparam, select, update

from placement_sched.db import sql
from placement_sched.db.tables import decisions, shadow_results
from placement_sched.db.transaction import Connection
from placement_sched.model.context import RequestIds
from placement_sched.model.document import to_storable
from placement_sched.model.shadow_result import PENDING, ShadowResult

_COLUMNS = shadow_results.c
_RESULTS = select(
    shadow_results, decisions.c.request_id, decisions.c.global_request_id, decisions.c.flavor
).outerjoin(decisions, decisions.c.uuid == _COLUMNS.decision_uuid)
#: The column of each attribute that is stored unchanged.
_FIELDS = {
    "decision": "decision_uuid",
    "instance": "instance_uuid",
    **{name: name for name in ("position", "verdict", "our_host", "nova_host")},
}
#: The parameters have other names than the columns, as SQLAlchemy requires.
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
    """Record new shadow results."""
    rows = [
        {column: getattr(result, name) for name, column in _FIELDS.items()}
        | {"detail": to_storable(result.detail), "created_at": now}
        for result in results
    ]
    sql.insert_rows(connection, shadow_results, rows)


def record_verdicts(connection: Connection, results: Sequence[ShadowResult], now: datetime) -> None:
    """Update verdict, nova's host and detail of recorded shadow results."""
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


def list_pending(connection: Connection) -> tuple[ShadowResult, ...]:
    """Return the shadow results without a verdict, oldest first."""
    return _search(connection, _COLUMNS.verdict == PENDING)


def list_for_decision(connection: Connection, uuid: str) -> tuple[ShadowResult, ...]:
    """Return the shadow results of a decision, sorted by position."""
    return _search(connection, _COLUMNS.decision_uuid == uuid)


def list_since(connection: Connection, moment: datetime | None) -> tuple[ShadowResult, ...]:
    """Return shadow results recorded since a time (None: all), oldest first."""
    conditions = () if moment is None else (_COLUMNS.created_at >= moment,)
    return _search(connection, *conditions)


def _search(connection: Connection, *conditions: sql.Condition) -> tuple[ShadowResult, ...]:
    order = (_COLUMNS.created_at, _COLUMNS.decision_uuid, _COLUMNS.position)
    rows = connection.execute(_RESULTS.where(*conditions).order_by(*order))
    return tuple(map(_build_result, rows))


def _build_result(row: Row[Any]) -> ShadowResult:
    return ShadowResult(
        **{name: getattr(row, column) for name, column in _FIELDS.items()},
        detail=orjson.loads(row.detail) if row.detail else {},
        request_ids=RequestIds(row.request_id, row.global_request_id),
        flavor=row.flavor,
        created_at=row.created_at,
    )
