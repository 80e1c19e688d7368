"""Which providers serve the whole request alone: one statement, cut at the limit."""

from random import Random

from sqlalchemy import Connection, Row, Select, select

from placement_sched.candidates.constraints import Condition
from placement_sched.db.tables import resource_providers
from placement_sched.model.candidate import CandidateProvider

_root = resource_providers.alias("root")
_parent = resource_providers.alias("parent")


def narrow(
    connection: Connection, condition: Condition, limit: int | None
) -> tuple[CandidateProvider, ...]:
    """Return the first ``limit`` providers, by id, that meet the condition.

    The limit goes into the statement, so that the database stops once it has enough.
    """
    statement = _providers().where(condition).order_by(resource_providers.c.id).limit(limit)
    return tuple(_candidate(row) for row in connection.execute(statement))


def sample(
    connection: Connection, condition: Condition, limit: int | None, random: Random
) -> tuple[CandidateProvider, ...]:
    """Return ``limit`` providers that meet the condition, each as likely as any other.

    The lot is drawn among ids; only the drawn are described.
    """
    fitting = connection.scalars(
        select(resource_providers.c.id).where(condition).order_by(resource_providers.c.id)
    ).all()
    drawn = random.sample(fitting, len(fitting) if limit is None else min(limit, len(fitting)))
    rows = connection.execute(_providers().where(resource_providers.c.id.in_(drawn)))
    found = {row.id: _candidate(row) for row in rows}
    return tuple(found[key] for key in drawn if key in found)


def _providers() -> Select[int, str, int, str, str | None]:
    return (
        select(
            resource_providers.c.id,
            resource_providers.c.uuid,
            resource_providers.c.generation,
            _root.c.uuid.label("root_uuid"),
            _parent.c.uuid.label("parent_uuid"),
        )
        .join(_root, _root.c.id == resource_providers.c.root_provider_id)
        .outerjoin(_parent, _parent.c.id == resource_providers.c.parent_provider_id)
    )


def _candidate(row: Row[int, str, int, str, str | None]) -> CandidateProvider:
    return CandidateProvider(
        id=row.id,
        uuid=row.uuid,
        generation=row.generation,
        root_uuid=row.root_uuid,
        parent_uuid=row.parent_uuid,
    )
