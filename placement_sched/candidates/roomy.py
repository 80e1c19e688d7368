"""Which providers had room for an amount when they were last judged, by their generation.

Whatever takes room from a provider raises its generation: a claim, other inventories. What gives
room back need not (OpenStack placement raises none for an allocation that is deleted). So who had
room and is still of that generation has room, and nothing need be summed up to know it. Of one
that had none, nothing is known.
"""

from collections import OrderedDict
from threading import Lock

from sqlalchemy import BigInteger, ColumnElement, Text, any_, cast, func, literal

from placement_sched.db.arrays import ArrayText
from placement_sched.db.tables import resource_providers
from placement_sched.model.candidate import Candidates

#: Amounts by resource class id, as one group asks for them.
Amounts = tuple[tuple[int, int], ...]

#: So many flavors are kept; each takes about 15 bytes for a provider that has room for it.
_KEPT = 16
_GENERATIONS = 2**31
_NONE = ""


class Roomy:
    """What one process remembers of that, in the form in which PostgreSQL is told of it.

    Right with any number of processes, and of foreign ones, that write to the database.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[Amounts, str] = OrderedDict()
        self._lock = Lock()

    def known(self, amounts: Amounts) -> str:
        """Return the providers known to have room for so much, as :func:`is_of` takes them."""
        with self._lock:
            if amounts in self._known:
                self._known.move_to_end(amounts)
            return self._known.get(amounts, _NONE)

    def known_with(self, amounts: Amounts, found: Candidates) -> str:
        """Return the same, and those that a search for so much of each has just found.

        One statement told that there is room, and the generation: so it did where it summed what
        is used. Of a sample the generation was read later.
        """
        known = self.known(amounts)
        if not found.usages.classes:
            return known
        lately = ",".join(
            [str(one.id * _GENERATIONS + (one.generation or 0)) for one in found.providers]
        )
        return f"{known},{lately}" if known else lately

    def note(self, amounts: Amounts, known: str) -> None:
        """Remember those providers, which :func:`listed` gave, in place of those known before."""
        with self._lock:
            self._known[amounts] = known
            self._known.move_to_end(amounts)
            if len(self._known) > _KEPT:
                self._known.popitem(last=False)


def stand() -> ColumnElement[int]:
    """Return the number of a provider at its generation, which no other one has.

    :meth:`Roomy.known_with` makes the same one.
    """
    columns = resource_providers.c
    return cast(columns.id, BigInteger) * _GENERATIONS + func.coalesce(columns.generation, 0)


def is_of(stood: ColumnElement[int], known: str) -> ColumnElement[bool]:
    """Return whether a provider stands among those known.

    For statements that are planned by value: only so PostgreSQL looks them up rather than goes
    through all of them for each row.
    """
    return stood == any_(literal(f"{{{known}}}", ArrayText(BigInteger())))


def listed(stood: ColumnElement[int]) -> ColumnElement[str]:
    """Return all of a column of such numbers, as :meth:`Roomy.note` takes them."""
    return func.string_agg(cast(stood, Text), ",")
