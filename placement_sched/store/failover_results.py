# SPDX-License-Identifier: Apache-2.0
"""The last result of the failover computation, in the only row of its table."""

from typing import Any

import orjson
from sqlalchemy import Connection, delete, insert, select

from placement_sched.db.tables import failover_results
from placement_sched.model.document import Json
from placement_sched.model.figures import FailoverResult
from placement_sched.store import change_counters

#: The subject of the change counter.
SUBJECT = "failover_result"
#: The id of the only row.
_ID = 1


def replace(connection: Connection, answer: Json) -> None:
    """Replace the result by the answer of a new computation."""
    change_counters.bump(connection, SUBJECT)
    moment = FailoverResult.of(answer).computed_at
    text = orjson.dumps(answer).decode()
    connection.execute(delete(failover_results))
    connection.execute(insert(failover_results).values(id=_ID, result=text, computed_at=moment))


def read(connection: Connection) -> FailoverResult | None:
    """Return the result, or None before the first computation."""
    text: Any = connection.scalar(select(failover_results.c.result))
    return None if text is None else FailoverResult.of(orjson.loads(text))
