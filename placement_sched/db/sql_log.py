"""Watching the SQL: in this service's log, and signed by its sender in the database's own."""

import logging
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from sqlalchemy import Engine, event

_PACKAGE = str(Path(__file__).resolve().parents[1])
_HERE = str(Path(__file__).resolve().parent)

# From these values of connection_debug on, as oslo.db has it.
_STATEMENTS, _ROWS = 50, 100


def log_statements(verbosity: int) -> None:
    """Let SQLAlchemy log statements (from 50 on) and rows (at 100); less leaves it as it is."""
    if verbosity >= _STATEMENTS:
        level = logging.DEBUG if verbosity >= _ROWS else logging.INFO
        logging.getLogger("sqlalchemy.engine").setLevel(level)


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
