"""Keep with a decision the best hosts, and what the request was evaluated under.

Decisions made before have neither: they can be replayed with the settings of today only.

Revision: 0015, after 0014.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

TABLE = "sched_decisions"


def upgrade() -> None:
    # MariaDB commits each change of a table: part of them may be there after an interrupted sync.
    there = {column["name"] for column in sa.inspect(op.get_bind()).get_columns(TABLE)}
    for name in ("best", "conditions"):
        if name not in there:
            text = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
            op.add_column(TABLE, sa.Column(name, text))
