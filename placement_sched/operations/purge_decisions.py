"""Delete recorded decisions, some at a time, beside running servers."""

from datetime import datetime
from functools import partial

from placement_sched.db.transaction import Connection, Database
from placement_sched.model.decision import DecisionsWanted
from placement_sched.operations import Progress
from placement_sched.store import decisions

#: How many are deleted in one transaction.
AT_ONCE = 500


def purge_decisions(
    database: Database, wanted: DecisionsWanted, progress: Progress, *, dry_run: bool = False
) -> int:
    """Delete the decisions wanted, the oldest first; return how many.

    ``wanted.until`` says up to which time. With ``dry_run`` they are counted only. It can be
    interrupted and run again: what was deleted until then is gone.
    """
    before = wanted.until
    if before is None:
        raise AssertionError("decisions are deleted up to a time")
    with database.read() as connection:
        number = decisions.count(connection, wanted)
    if dry_run:
        return number
    # Of all decisions up to a time, what nova did beside those that were not recorded goes as well.
    narrower = None if wanted == DecisionsWanted(until=before) else wanted
    deleted = 0
    while True:
        progress(deleted, max(number, deleted))
        some = database.write(partial(_purge, before=before, wanted=narrower))
        deleted += some
        if some < AT_ONCE:
            return deleted


def _purge(connection: Connection, before: datetime, wanted: DecisionsWanted | None) -> int:
    return decisions.purge(connection, before, AT_ONCE, wanted)
