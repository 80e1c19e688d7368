"""The compute nodes whose service is enabled, and how a process learns that others are it now.

Which they are follows from compute nodes and services alone, tables that nobody else writes. Their
stores tell each change here, so that no writer can forget it. A heartbeat is none, nor a report of
other figures: ten thousand hosts report each minute, and must not queue for one row.
"""

from sqlalchemy import Connection, Select, and_, literal, select

from placement_sched.db.tables import compute_nodes, services
from placement_sched.model.service import COMPUTE_BINARY
from placement_sched.store import change_counters

#: Their change counter: it rises when a node comes, goes or moves to another host, and when a
#: service comes, goes, is disabled or is enabled.
SUBJECT = "enabled_nodes"


def note_change(connection: Connection) -> None:
    """Note, in the transaction that makes it so, that other nodes may be enabled now."""
    change_counters.bump(connection, SUBJECT)


def query() -> Select[int]:
    """Return a query that has a row of each, to be narrowed."""
    return (
        select(literal(1))
        .select_from(compute_nodes)
        .join(
            services,
            and_(services.c.host == compute_nodes.c.host, services.c.binary == COMPUTE_BINARY),
        )
        .where(services.c.disabled == 0)
    )
