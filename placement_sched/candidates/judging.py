"""Which constraints of a search for lone providers are not met by whom: one statement.

It asks the search's own conditions of every provider. Where the search found somebody, all that
there is to tell of the others is the first constraint that they do not meet.
"""

from collections.abc import Collection, Iterator, Sequence
from functools import reduce
from operator import add
from typing import Any, NamedTuple

from sqlalchemy import (
    CTE,
    ColumnElement,
    Connection,
    FromClause,
    Select,
    case,
    exists,
    func,
    literal,
    null,
    or_,
    select,
    true,
    union_all,
)

from placement_sched.candidates.constraints import Constraint, Manner, room_for
from placement_sched.candidates.roomy import Roomy, is_of, listed, stand
from placement_sched.candidates.search import Search
from placement_sched.candidates.sums import sums_of
from placement_sched.db.among import among
from placement_sched.db.plans import PLANNED_BY_VALUE
from placement_sched.db.tables import compute_nodes, resource_providers
from placement_sched.model.candidate import Candidates

#: The positions of constraints that a provider does not meet.
Misses = tuple[int, ...]

#: In place of a position: all are met; or they were when it was last judged, and still are.
_NONE, _KNOWN = -1, -2
#: Constraints that are not met come as bits, in words of so many.
_WORD = 30


class Refused(NamedTuple):
    """A provider that is told of: its host and node, or twice its name where it is none."""

    host: str
    node: str
    id: int
    misses: Misses


def first_misses(
    connection: Connection, search: Search, found: Candidates, roomy: Roomy
) -> list[Refused]:
    """Return who does not meet all constraints, by host and node, each with the first of them.

    Those known to ``roomy``, and those that the search ``found``, need not be asked for room; who
    else has some is made known.
    """
    (group,) = search.query.groups
    amounts = tuple((search.names.classes[name], amount) for name, amount in group.resources)
    # The constraints on amounts come first. Each sums by itself: most refuse at the first.
    room = _first([_lacks_room(connection, search, *asked) for asked in group.resources])
    others = search.constraints[len(amounts) :]
    other = _first([_missed(one) == 1 for one in others], len(amounts))
    if not amounts or connection.dialect.name != "postgresql":
        rows = connection.execute(_refused(_judged(room, other))).all()
    else:
        known = (is_of(stand(), roomy.known_with(amounts, found)), _KNOWN)
        judged = _judged(case(known, else_=room), other, stand().label("stand"))
        both = union_all(_refused(judged), _roomy_anew(judged))
        rows = connection.execute(both, execution_options=PLANNED_BY_VALUE).all()
        (anew,) = (row.host for row in rows if row.id is None)
        if anew is not None:
            roomy.note(amounts, anew)
    return sorted(
        Refused(host or "", node or "", key, (room if room >= 0 else other,))
        for host, node, key, room, other in rows
        if key is not None
    )


def all_misses(
    connection: Connection, search: Search, only: Collection[str] | None = None
) -> list[Refused]:
    """Return who does not meet all constraints, by host and node, each with all of those.

    With ``only`` just the providers of these uuids are asked.
    """
    (group,) = search.query.groups
    classes = [search.names.classes[name] for name, _ in group.resources]
    sums = sums_of(connection, classes) if only is None else None
    constraints = search.conditions(Manner(sums=sums, each=only is not None))
    words = [
        reduce(add, map(_bit, constraints[start : start + _WORD], range(_WORD)))
        for start in range(0, len(constraints), _WORD)
    ]
    statement = _named(resource_providers, *words).where(or_(*(word != 0 for word in words)))
    if sums is not None:
        statement = statement.join(sums.beside, true())
    if only is not None:
        statement = statement.where(among(connection, resource_providers.c.uuid, only))
    meanings: dict[tuple[int, ...], Misses] = {}
    found: list[Refused] = []
    for host, node, key, *told in connection.execute(statement):
        pattern = tuple(told)
        misses = meanings.get(pattern)
        if misses is None:
            misses = meanings[pattern] = tuple(_positions(pattern))
        found.append(Refused(host or "", node or "", key, misses))
    return sorted(found)


def _first(missed: Sequence[ColumnElement[bool]], start: int = 0) -> ColumnElement[int]:
    """Return the position of the first that holds, counted from ``start``, or none."""
    places = [(miss, place) for place, miss in enumerate(missed, start)]
    return case(*places, else_=_NONE) if places else literal(_NONE)


def _missed(constraint: Constraint) -> ColumnElement[int]:
    # Not by NOT: a condition that is neither true nor false is not met.
    return case((constraint.condition, 0), else_=1)


def _lacks_room(
    connection: Connection, search: Search, name: str, amount: int
) -> ColumnElement[bool]:
    class_id = search.names.classes[name]
    sums = sums_of(connection, [class_id])
    missed = _missed(room_for(name, class_id, amount, sums))
    if sums is None:
        return missed == 1
    # PostgreSQL would sum up everybody's for the few that ask, if it were the condition's own sum.
    asked = select(missed).select_from(sums.beside).correlate(resource_providers)
    return asked.scalar_subquery() == 1


def _bit(constraint: Constraint, position: int) -> ColumnElement[int]:
    return case((constraint.condition, 0), else_=1 << position)


def _positions(words: Sequence[int]) -> Iterator[int]:
    for number, word in enumerate(words):
        yield from (number * _WORD + bit for bit in range(_WORD) if word >> bit & 1)


def _judged(room: ColumnElement[int], other: ColumnElement[int], *more: ColumnElement[Any]) -> CTE:
    columns = resource_providers.c
    misses = room.label("room"), other.label("other")
    return select(columns.id, columns.uuid, columns.name, *misses, *more).cte("judged")


def _refused(judged: CTE) -> Select[Any]:
    columns = judged.c
    misses = columns.room, columns.other
    return _named(judged, *misses).where(or_(*(miss >= 0 for miss in misses)))


def _named(providers: FromClause, *more: ColumnElement[Any]) -> Select[Any]:
    """Return host, node and id of providers, with more columns."""
    node, provider = compute_nodes.c, providers.c
    return (
        select(
            func.coalesce(node.host, provider.name).label("host"),
            func.coalesce(node.hypervisor_hostname, provider.name).label("node"),
            provider.id,
            *more,
        )
        .select_from(providers)
        .outerjoin(compute_nodes, node.uuid == provider.uuid)
    )


def _roomy_anew(judged: CTE) -> Select[Any]:
    """Return one row, without an id: all who have room, where some were not known to."""
    columns = judged.c
    everybody = select(listed(columns.stand)).where(columns.room < 0).scalar_subquery()
    some = exists().where(columns.room == _NONE)
    return select(case((some, everybody)), null(), null(), null(), null())
