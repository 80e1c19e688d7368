"""Questions for rows that should not be there, each one statement, whatever the size of a cloud."""

from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import Connection, Select

from placement_sched.model.results.invariants import Invariant
from placement_sched.store.invariants import amounts, hosts, recorded, references, times

#: What returns a row for each violation.
QUESTIONS: Mapping[Invariant, Select[Any]] = {
    Invariant.OVER_CAPACITY: amounts.over_capacity(),
    Invariant.UNITS: amounts.units_ignored(),
    Invariant.NO_INVENTORY: amounts.without_inventory(),
    **references.questions(),
    **recorded.questions(),
    Invariant.CLAIM_UNRECORDED: hosts.unrecorded_claims(),
}


def answers(
    connection: Connection, invariant: Invariant, most: int
) -> Iterator[Mapping[str, object]]:
    """Yield what violates an invariant, at most so many, with the names of its sentence.

    Which of more they are is left to the database: an order would make it find all of them first.
    """
    rows = connection.execute(QUESTIONS[invariant].limit(most)).mappings().all()
    for row in rows:
        yield {
            str(key): times.read(value) if key in amounts.TIMES else value
            for key, value in row.items()
        }
