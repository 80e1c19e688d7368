"""Which constraints each provider does not meet, where one provider serves the request.

One statement evaluates the search's own conditions for every provider. Where the search found any,
only the first unmet constraint of each other provider is reported.
"""

from collections.abc import Collection, Sequence
from functools import reduce
from operator import add
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection

from placement_sched.candidates.constraints import ConditionStyle, Constraint, room_for, usage_sums
from placement_sched.candidates.explain.memory import GENERATIONS, CapacityMemory
from placement_sched.candidates.explain.stages import named
from placement_sched.candidates.search import Search
from placement_sched.db.histories import history_of
from placement_sched.db.sql import ArrayText, among
from placement_sched.db.tables import resource_providers
from placement_sched.model.placement.candidate import Candidates

#: In place of a position: all are met; or they were, and the generation is still the same.
_NONE, _KNOWN = -1, -2
#: Unmet constraints come as bits, in words of so many.
_WORD = 30


class RejectedProvider(NamedTuple):
    """A provider that does not meet the constraints at these positions, with host and node."""

    host: str
    node: str
    id: int
    unmet: tuple[int, ...]


class CheckedProviders(NamedTuple):
    """How many providers there are, and those that do not meet all constraints."""

    providers: int
    rejected: list[RejectedProvider]


def first_unmet(
    connection: Connection, search: Search, found: Candidates, memory: CapacityMemory
) -> list[RejectedProvider]:
    """Return the providers that do not meet all constraints, by host and node, with the first.

    Those in ``memory``, and those that the search ``found``, are not checked for room; others that
    have room are remembered.
    """
    columns, (group,) = resource_providers.c, search.query.groups
    amounts = tuple((search.names.classes[name], amount) for name, amount in group.resources)
    # The constraints on amounts come first. Each sums by itself: most are rejected by the first.
    room = _first([_lacks_room(connection, search, *one) for one in group.resources])
    others = search.constraints()[len(amounts) :]
    other = _first([_unmet(one) == 1 for one in others], len(amounts))
    remembers = bool(amounts) and connection.dialect.name == "postgresql"
    more = []
    history = history_of(connection)
    if remembers:
        # Such a statement is planned by value: only so PostgreSQL looks up the known providers
        # rather than goes through all of them for each row.
        there = memory.known_with(amounts, found, history)
        known = sa.literal(f"{{{there}}}", ArrayText(sa.BigInteger()))
        version = sa.cast(columns.id, sa.BigInteger) * GENERATIONS + sa.func.coalesce(
            columns.generation, 0
        )
        room = sa.case((version == sa.any_(known), _KNOWN), else_=room)
        more = [version.label("version")]
    unmet = (room.label("room"), other.label("other"))
    checked = sa.select(columns.id, columns.uuid, columns.name, *unmet, *more).cte("checked")
    places = (checked.c.room, checked.c.other)
    rejected = named(checked, *places).where(sa.or_(*(one >= 0 for one in places)))
    if not remembers:
        rows = connection.execute(rejected).all()
    else:
        # One row without an id: all that have room, where some were not known to.
        with_room = sa.func.string_agg(sa.cast(checked.c.version, sa.Text), ",")
        listed = sa.select(with_room).where(checked.c.room < 0).scalar_subquery()
        some = sa.exists().where(checked.c.room == _NONE)
        newly_known = sa.select(sa.case((some, listed)), sa.null(), sa.null(), sa.null(), sa.null())
        both = sa.union_all(rejected, newly_known)
        rows = connection.execute(both).all()
        (noted,) = (row.host for row in rows if row.id is None)
        if noted is not None:
            memory.note(amounts, noted, history)
    return sorted(
        RejectedProvider(host or "", node or "", key, (room if room >= 0 else other,))
        for host, node, key, room, other in rows
        if key is not None
    )


def all_unmet(
    connection: Connection, search: Search, only: Collection[str] | None = None
) -> list[RejectedProvider]:
    """Return the providers that do not meet all constraints, by host and node, with each unmet.

    With ``only`` just the providers of these uuids.
    """
    (group,) = search.query.groups
    classes = [search.names.classes[name] for name, _ in group.resources]
    sums = usage_sums(connection, classes) if only is None else None
    constraints = search.constraints(ConditionStyle(sums=sums, each=only is not None))
    bits = [_unmet(one, 1 << at % _WORD) for at, one in enumerate(constraints)]
    words = [reduce(add, bits[at : at + _WORD]) for at in range(0, len(bits), _WORD)]
    statement = named(resource_providers, *words).where(sa.or_(*(word != 0 for word in words)))
    if sums is not None:
        statement = statement.join(sums.lateral, sa.true())
    if only is not None:
        statement = statement.where(among(connection, resource_providers.c.uuid, only))
    positions: dict[tuple[int, ...], tuple[int, ...]] = {}
    found: list[RejectedProvider] = []
    for host, node, key, *word in connection.execute(statement):
        pattern = tuple(word)
        unmet = positions.get(pattern)
        if unmet is None:
            unmet = positions[pattern] = tuple(
                at for at in range(len(bits)) if pattern[at // _WORD] >> at % _WORD & 1
            )
        found.append(RejectedProvider(host or "", node or "", key, unmet))
    return sorted(found)


def _first(unmet: Sequence[sa.ColumnElement[bool]], start: int = 0) -> sa.ColumnElement[int]:
    places = [(one, place) for place, one in enumerate(unmet, start)]
    return sa.case(*places, else_=_NONE) if places else sa.literal(_NONE)


def _unmet(constraint: Constraint, bit: int = 1) -> sa.ColumnElement[int]:
    # Not by NOT: a condition that is neither true nor false is not met.
    return sa.case((constraint.condition, 0), else_=bit)


def _lacks_room(
    connection: Connection, search: Search, name: str, amount: int
) -> sa.ColumnElement[bool]:
    class_id = search.names.classes[name]
    sums = usage_sums(connection, [class_id])
    unmet = _unmet(room_for(name, class_id, amount, sums))
    if sums is None:
        return unmet == 1
    # With a sum in the condition itself, PostgreSQL would sum for all providers, not just those
    # that need it.
    checked = sa.select(unmet).select_from(sums.lateral).correlate(resource_providers)
    return checked.scalar_subquery() == 1
