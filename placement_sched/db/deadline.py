"""Stops SQLite's statements that run for too long, which no option of SQLite does."""

from math import inf
from time import monotonic
from typing import Any

from sqlalchemy import Connection, Engine, event

#: How many steps SQLite's machine makes between two looks at the clock: well below a millisecond.
_STEPS = 10_000
_KEY = "placement_sched.deadline"


class _Deadline:
    """When the statement that a connection runs has to be done."""

    def __init__(self) -> None:
        self.end = inf

    def has_passed(self) -> bool:
        return monotonic() > self.end


def stop_late_statements(engine: Engine, seconds: int) -> None:
    """Interrupt each statement of an SQLite engine that has not ended after so many seconds."""

    @event.listens_for(engine, "connect")
    def watch(connection: Any, record: Any) -> None:
        deadline = record.info[_KEY] = _Deadline()
        connection.set_progress_handler(deadline.has_passed, _STEPS)

    @event.listens_for(engine, "before_cursor_execute")
    def begin(connection: Connection, *_statement: object) -> None:
        connection.info[_KEY].end = monotonic() + seconds
