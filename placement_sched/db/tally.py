"""What a piece of work asked of the database, counted as it goes: statements, claims, candidates.

Each thread sees its own counts, so a request that runs in one thread reads what it did itself.
"""

import threading
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Engine, event

from placement_sched.db.engine import BEGIN


class Tally(threading.local):
    """Counts of the current thread since :meth:`reset`.

    ``statements`` went to the database; ``retries`` is how often a transaction was started again
    because of a rival. A claim is an attempt to allocate: it was won, or lost to somebody faster
    or for want of room, and ``claims_retried`` counts new starts. ``candidates`` is how many a
    search found, None where nobody searched.
    """

    statements = 0
    retries = 0
    claims_won = 0
    claims_lost = 0
    claims_retried = 0
    candidates: int | None = None

    def reset(self) -> None:
        """Count from nought again."""
        self.__dict__.clear()


def count_statements(engines: Iterable[Engine], tally: Tally) -> None:
    """Let ``tally`` count each statement that is sent by ``engines``.

    The dialects tell of them: an engine that is listened to gives each connection a dispatcher of
    its own, which takes longer than all that is counted. They are listened to from the first
    connection on, when they have asked what they want to know of the database.
    """

    def note(_cursor: Any, statement: str, *_rest: Any) -> None:
        if not statement.startswith(BEGIN):
            tally.statements += 1

    def begin(engine: Engine) -> None:
        for done in ("do_execute", "do_execute_no_params", "do_executemany"):
            event.listen(engine, done, note)

    for engine in engines:
        event.listen(engine, "connect", lambda *_, engine=engine: begin(engine), once=True)
