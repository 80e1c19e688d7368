# SPDX-License-Identifier: Apache-2.0
"""Notices that requests without a host would fit now."""

from collections.abc import Collection, Sequence
from datetime import datetime

import orjson
from sqlalchemy import Connection, delete, exists, select

from placement_sched.db import sql
from placement_sched.db.tables import decision_notices, decision_places, decisions
from placement_sched.model.decision import NO_VALID_HOST, SELECT, Notice

_COLUMNS = decision_notices.c


def waiting(
    connection: Connection, policies: Collection[str], since: datetime, limit: int
) -> list[str]:
    """Return the newest decisions without a host that still wait for a notice.

    A request stops waiting as soon as a later selection is about any of its instances.
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
        select(_COLUMNS.attempts).where(
            _COLUMNS.decision_uuid == decisions.c.uuid, _COLUMNS.ended_at.is_not(None)
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


def by_decision(connection: Connection, uuid: str) -> Notice | None:
    """Return the notice of a decision, or None before the first attempt."""
    row = connection.execute(select(decision_notices).where(_COLUMNS.decision_uuid == uuid)).first()
    if row is None:
        return None
    return Notice(uuid, row.attempts, tuple(orjson.loads(row.pending)), row.ended_at)


def record(connection: Connection, notice: Notice, now: datetime) -> None:
    """Record the state of a notice."""
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


def purge(connection: Connection, decision_uuids: Sequence[str]) -> None:
    """Delete the notices of decisions."""
    sql.change_in_batches(
        connection, delete(decision_notices), _COLUMNS.decision_uuid, decision_uuids
    )
