"""Decisions: every answer that was given, kept for a while."""

from collections.abc import Collection
from datetime import datetime

import orjson
from sqlalchemy import Connection, insert, select

from placement_sched.db.tables import decisions, instances
from placement_sched.model.decision import Decision


def record(connection: Connection, decision: Decision, now: datetime) -> None:
    """Write a decision down."""
    connection.execute(
        insert(decisions).values(
            uuid=decision.uuid,
            outcome=decision.outcome,
            project_id=decision.project_id,
            request_digest=decision.digest,
            request=orjson.dumps(decision.request).decode(),
            selections=orjson.dumps(decision.answer).decode(),
            funnel=None if decision.funnel is None else orjson.dumps(decision.funnel).decode(),
            created_at=now,
        )
    )


def of_instances(connection: Connection, uuids: Collection[str]) -> dict[str, Decision]:
    """Return the decision that placed each of these instances, for those that one placed."""
    rows = connection.execute(
        select(decisions, instances.c.uuid.label("instance_uuid"))
        .join(instances, instances.c.decision_uuid == decisions.c.uuid)
        .where(instances.c.uuid.in_(sorted(uuids)))
    )
    return {
        row.instance_uuid: Decision(
            uuid=row.uuid,
            outcome=row.outcome,
            project_id=row.project_id,
            digest=row.request_digest,
            request=orjson.loads(row.request),
            answer=orjson.loads(row.selections),
            funnel=None if row.funnel is None else orjson.loads(row.funnel),
            created_at=row.created_at,
        )
        for row in rows
    }
