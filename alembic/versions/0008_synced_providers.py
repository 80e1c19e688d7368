"""Distinguish a provider with a trait of sync_traits from one created again under its uuid.

What was put before is taken to be on the provider that has the uuid now.

Revision: 0008, after 0007.
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

TABLE = "sched_synced_traits"
COLUMN = "provider_id"
MANY = 1000


def upgrade() -> None:
    # MariaDB commits every table at once: what an interrupted sync made is there already.
    if COLUMN not in {column["name"] for column in sa.inspect(op.get_bind()).get_columns(TABLE)}:
        op.add_column(TABLE, sa.Column(COLUMN, sa.Integer()))
    fill()


def fill() -> None:
    """Write the providers' ids, some at a time.

    They are not joined by uuid: the other service's tables may have another collation.
    """
    connection = op.get_bind()
    synced = sa.table(TABLE, sa.column("provider_uuid"), sa.column(COLUMN))
    providers = sa.table("resource_providers", sa.column("uuid"), sa.column("id"))
    change = (
        sa.update(synced)
        .where(synced.c.provider_uuid == sa.bindparam("provider"))
        .values(provider_id=sa.bindparam("number"))
    )
    lacking = sa.select(synced.c.provider_uuid).where(synced.c.provider_id.is_(None)).distinct()
    uuids = connection.scalars(lacking).all()
    for start in range(0, len(uuids), MANY):
        some = uuids[start : start + MANY]
        query = sa.select(providers.c.uuid, providers.c.id).where(providers.c.uuid.in_(some))
        rows = [{"provider": uuid, "number": number} for uuid, number in connection.execute(query)]
        if rows:
            connection.execute(change, rows)
