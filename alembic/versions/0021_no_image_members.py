# SPDX-License-Identifier: Apache-2.0
"""Drop the table of the projects that images were shared with.

Revision: 0021, after 0020.
"""

from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("DROP TABLE IF EXISTS sched_image_members")
