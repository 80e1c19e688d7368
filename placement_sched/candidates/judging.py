"""Which constraints of a search for lone providers each provider does not meet: one statement.

It asks the search's own conditions of everybody. To sum what is used is the dearest of them, and
is left out where :class:`~placement_sched.candidates.roomy.Roomy` knows that there is room.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import add
from typing import Any, NamedTuple

from sqlalchemy import (
    CTE,
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    case,
    exists,
    func,
    not_,
    null,
    or_,
    select,
    union_all,
)

from placement_sched.candidates.constraints import Constraint, Manner
from placement_sched.candidates.roomy import Roomy, is_of, listed, stand
from placement_sched.candidates.search import Search
from placement_sched.candidates.sums import Sums, sums_of
from placement_sched.db.plans import PLANNED_BY_VALUE
from placement_sched.db.tables import compute_nodes, resource_providers

#: Which constraints a provider does not meet: a bit for each, in words of so many.
_WORD = 30
Misses = tuple[int, ...]
Bits = ColumnElement[int]


class Refused(NamedTuple):
    """A provider that is told of: its host and node, or twice its name where it is none."""

    host: str
    node: str
    id: int
    misses: Misses


def all_refused(connection: Connection, search: Search, roomy: Roomy) -> list[Refused]:
    """Return every provider that does not meet all constraints of a search, by host and node.

    ``misses`` are the positions of those that it does not meet. What is found out of who has room
    is left with ``roomy``.
    """
    (group,) = search.query.groups
    amounts = tuple((search.names.classes[name], amount) for name, amount in group.resources)
    sums = sums_of(connection, [class_id for class_id, _ in amounts])
    constraints = search.conditions(Manner(sums=sums))
    # The constraints on amounts come first; they have words of their own.
    room, others = _words(constraints[: len(amounts)]), _words(constraints[len(amounts) :])
    starts = (*range(0, len(amounts), _WORD), *range(len(amounts), len(constraints), _WORD))
    if sums is None or not amounts:
        return _read(connection.execute(_told(_judged([*room, *others]))), starts)
    known = is_of(stand(), roomy.known(amounts))
    asked = [case((known, 0), else_=_summed(word, sums)) for word in room]
    judged = _judged([*asked, *others], stand().label("stand"), known.label("known"))
    both = union_all(_told(judged), _roomy_anew(judged, len(room)))
    rows = connection.execute(both, execution_options=PLANNED_BY_VALUE).all()
    (anew,) = (row for row in rows if row.id is None)
    if anew.host is not None:
        roomy.note(amounts, anew.host)
    return _read((row for row in rows if row is not anew), starts)


def _words(constraints: Sequence[Constraint]) -> list[Bits]:
    return [
        reduce(add, map(_bit, constraints[start : start + _WORD], range(_WORD)))
        for start in range(0, len(constraints), _WORD)
    ]


def _bit(constraint: Constraint, position: int) -> Bits:
    return case((constraint.condition, 0), else_=1 << position)


def _summed(word: Bits, sums: Sums) -> Bits:
    """Return a word that goes by sums, which are made where it is asked for only."""
    return select(word).select_from(sums.beside).correlate(resource_providers).scalar_subquery()


def _judged(words: Sequence[Bits], *more: ColumnElement[Any]) -> CTE:
    columns = resource_providers.c
    named = [word.label(f"word_{number}") for number, word in enumerate(words)]
    return select(columns.id, columns.uuid, columns.name, *more, *named).cte("judged")


def _words_of(judged: CTE) -> list[Bits]:
    return [column for column in judged.c if column.name.startswith("word_")]


def _told(judged: CTE) -> Select[Any]:
    """Return who does not meet everything, by the names that hosts and nodes have."""
    node, words = compute_nodes.c, _words_of(judged)
    return (
        select(
            func.coalesce(node.host, judged.c.name).label("host"),
            func.coalesce(node.hypervisor_hostname, judged.c.name).label("node"),
            judged.c.id,
            *words,
        )
        .select_from(judged)
        .outerjoin(compute_nodes, node.uuid == judged.c.uuid)
        .where(or_(*(word != 0 for word in words)))
    )


def _roomy_anew(judged: CTE, room: int) -> Select[Any]:
    """Return one row without an id: all who have room, where some were not known to, else null.

    ``room`` is how many words tell of that.
    """
    words = _words_of(judged)
    has_room = and_(*(word == 0 for word in words[:room]))
    everybody = select(listed(judged.c.stand)).where(has_room).scalar_subquery()
    some = exists().where(has_room, not_(judged.c.known))
    return select(case((some, everybody)), null(), null(), *(null() for _ in words))


def _read(rows: Iterable[Row[Any]], starts: Sequence[int]) -> list[Refused]:
    meanings: dict[tuple[int, ...], Misses] = {}
    found: list[Refused] = []
    for row in rows:
        host, node, key, *words = tuple(row)
        pattern = tuple(words)
        misses = meanings.get(pattern)
        if misses is None:
            misses = meanings[pattern] = tuple(_positions(pattern, starts))
        found.append(Refused(host or "", node or "", key, misses))
    return sorted(found)


def _positions(words: Sequence[int], starts: Sequence[int]) -> Iterator[int]:
    for start, word in zip(starts, words, strict=True):
        yield from (start + bit for bit in range(_WORD) if word >> bit & 1)
