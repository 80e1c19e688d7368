"""Statements that PostgreSQL plans for the values they are sent with, each time.

psycopg prepares what it sends often, and PostgreSQL then soon takes one plan for whatever the
values are: no constant is folded, and a limit is taken for a tenth of what there is. That saves
half a millisecond, and loses far more on thousands of rows (``doc/decisions/0003``).
"""

from typing import Any

from sqlalchemy import Engine, event

_OPTION = "planned_by_value"

#: For ``connection.execute(..., execution_options=PLANNED_BY_VALUE)``; heeded on PostgreSQL only.
PLANNED_BY_VALUE = {_OPTION: True}


def plan_by_value(engine: Engine) -> None:
    """Let ``engine`` send so what asks for it; another database than PostgreSQL is left alone.

    To be called after all others that listen to its dialect: who sends a statement is the last to
    hear of it.
    """
    if engine.dialect.name != "postgresql":
        return

    def execute(cursor: Any, statement: str, parameters: Any, context: Any) -> bool:
        if not context.execution_options.get(_OPTION):
            return False
        cursor.execute(statement, parameters, prepare=False)
        return True

    # From the first connection on, as the tally does, which comes before.
    event.listen(
        engine, "connect", lambda *_: event.listen(engine, "do_execute", execute), once=True
    )
