"""What is noted of each statement that an engine sends: counts, and signatures in comments."""

import sys
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from sqlalchemy import Engine, event

from placement_sched.model.results.decision import Decision, DecisionLabels

#: How a transaction begins on SQLite. IMMEDIATE takes the write lock before anything is read, so
#: a claim never decides on a picture that another writer is about to change.
BEGIN = "BEGIN IMMEDIATE"
#: The statements that begin a transaction of a writer, which are not counted.
_BEGINNINGS = (BEGIN, "BEGIN ISOLATION LEVEL READ COMMITTED")

_PACKAGE = str(Path(__file__).resolve().parents[1])
_HERE = str(Path(__file__).resolve().parent)


class Tally(threading.local):
    """What the current thread has asked of the database since :meth:`reset`.

    ``statements`` went to the database; ``retries`` is how often a transaction was started again
    because of a concurrent writer. A claim is an attempt to allocate: it was won, or lost to a
    faster claim or for lack of capacity, and ``claims_retried`` counts new starts. ``conflicts``
    counts, by kind, what writes met of concurrent ones; ``pool_timeouts`` how often all connections
    that may be open stayed in use for too long. ``candidates`` is how many a search found, None
    where there was no search. ``stages`` is how many seconds each stage of scheduling took,
    ``decision`` what it came to, ``made`` the decision
    itself where one was recorded, ``funnel`` what its stages let through, an explanation's as well.
    """

    statements = 0
    retries = 0
    claims_won = 0
    claims_lost = 0
    claims_retried = 0
    pool_timeouts = 0
    candidates: int | None = None
    decision: DecisionLabels | None = None
    made: Decision | None = None
    funnel: Mapping[str, Any] | None = None

    def __init__(self) -> None:
        """Begin, in each thread, at zero."""
        self.conflicts: Counter[str] = Counter()
        self.stages: dict[str, float] = {}

    def reset(self) -> None:
        """Count from zero again."""
        self.__dict__.clear()
        self.conflicts = Counter()
        self.stages = {}


def count_statements(engines: Iterable[Engine], tally: Tally) -> None:
    """Let ``tally`` count each statement that is sent by ``engines``.

    It listens to the dialects: an engine with listeners gives each connection a dispatcher of
    its own, which takes longer than all that is counted. It listens from the first connection on,
    when the dialects have asked what they want to know of the database.
    """

    def note(_cursor: Any, statement: str, *_rest: Any) -> None:
        if not statement.startswith(_BEGINNINGS):
            tally.statements += 1

    def begin(engine: Engine) -> None:
        for done in ("do_execute", "do_execute_no_params", "do_executemany"):
            event.listen(engine, done, note)

    for engine in engines:
        event.listen(engine, "connect", lambda *_, engine=engine: begin(engine), once=True)


def sign_statements(engine: Engine) -> None:
    """Append to each statement of ``engine`` a comment with the function and line that sent it."""

    def sign(
        _connection: Any, _cursor: Any, statement: str, parameters: Any, *_rest: Any
    ) -> tuple[str, Any]:
        return f"{statement} /* {_sender(sys._getframe(1))} */", parameters  # noqa: SLF001 - what inspect.currentframe() is, one frame up

    event.listen(engine, "before_cursor_execute", sign, retval=True)


def _sender(frame: FrameType | None) -> str:
    """Return where in this package, outside of ``db``, the call came from."""
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(_PACKAGE) and not code.co_filename.startswith(_HERE):
            path = code.co_filename.removeprefix(_PACKAGE).lstrip("/")
            return f"{path}:{frame.f_lineno} {code.co_qualname}"
        frame = frame.f_back
    return "placement_sched"
