# SPDX-License-Identifier: Apache-2.0
"""Add the requests of instances, to schedule them again.

Null means unknown: ``nova sync`` completes the existing instances of a nova.

Revision: 0027, after 0026.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    existing = {column["name"] for column in sa.inspect(op.get_bind()).get_columns(_TABLE)}
    # An interrupted upgrade is repeated, and MariaDB commits each change of a table.
    if "request" not in existing:
        long_text = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
        op.add_column(_TABLE, sa.Column("request", long_text))


_TABLE = "sched_instances"
