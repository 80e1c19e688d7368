"""Drop the table of how often clients have written: no answer is read from a standby any more.

Revision: 0020, after 0019.
"""

from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("DROP TABLE IF EXISTS sched_last_writes")
