"""Counts the statements that engines send, and signs them in comments."""

import sys
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import Any

from sqlalchemy import Engine, event

from placement_sched.model.request_stats import request_stats

#: How a transaction begins on SQLite. IMMEDIATE takes the write lock before anything is read, so
#: a claim never decides on a picture that another writer is about to change.
BEGIN = "BEGIN IMMEDIATE"
#: The statements that begin a transaction of a writer, which are not counted.
_BEGINNINGS = (BEGIN, "BEGIN ISOLATION LEVEL READ COMMITTED")

_PACKAGE = str(Path(__file__).resolve().parents[1])
_HERE = str(Path(__file__).resolve().parent)


def count_statements(engines: Iterable[Engine]) -> None:
    """Count each statement of ``engines`` in the statistics of the request that sends it.

    It listens to the dialects: an engine with listeners gives each connection a dispatcher of
    its own, which takes longer than all that is counted. It listens from the first connection on,
    when the dialects have asked what they want to know of the database.
    """

    def note(_cursor: Any, statement: str, *_rest: Any) -> None:
        if not statement.startswith(_BEGINNINGS):
            request_stats().statements += 1

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
