"""Who is in the trees that are looked at, and which slots of a request each could serve alone.

One statement for all members, a row each: a condition of a slot is asked of one provider after the
other, so that trees that are not looked at cost nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, case, select

from placement_sched.candidates.forest import Forest, roots_of
from placement_sched.db.among import among
from placement_sched.db.batches import batches
from placement_sched.db.tables import resource_providers
from placement_sched.model.candidate import CandidateProvider

_itself = resource_providers.c
_OWN = (_itself.id, _itself.root_provider_id, _itself.parent_provider_id)
_DESCRIBED = (*_OWN, _itself.uuid, _itself.generation)


class Member(NamedTuple):
    """A provider of a tree: its ids, what a summary goes by, and the slots it could serve."""

    id: int
    root: int
    parent: int | None
    uuid: str
    generation: int
    serves: tuple[int, ...]


def members_of_first(connection: Connection, forest: Forest, size: int, after: int) -> list[Member]:
    """Return the members of the first ``size`` trees, by id of their roots behind ``after``.

    These are all trees whose root is as asked, whether or not they can serve the request.
    """
    roots = roots_of(forest, after).limit(size).subquery("roots")
    statement = _members(forest).join(roots, roots.c.id == _itself.root_provider_id)
    return _read(connection, forest, [statement])


def members_of(connection: Connection, forest: Forest, roots: Sequence[int]) -> list[Member]:
    """Return the members of the trees of these roots."""
    statement = _members(forest)
    return _read(
        connection,
        forest,
        [
            statement.where(among(connection, _itself.root_provider_id, batch))
            for batch in batches(roots, 10_000)
        ],
    )


def sharers_of(connection: Connection, forest: Forest, ids: Sequence[int]) -> list[Member]:
    """Return the providers of these ids, and which slots of another tree each could serve."""
    statement = _members(forest, shared=True)
    return _read(
        connection,
        forest,
        [statement.where(among(connection, _itself.id, batch)) for batch in batches(ids, 10_000)],
    )


def _members(forest: Forest, *, shared: bool = False) -> Select[*tuple[Any, ...]]:
    """Return the query of providers, with a column for all slots that ask the same."""
    parts = [forest.parts[positions[0]] for positions in _alike(forest)]
    conditions = [part.asked_of_sharer() if shared else part.asked_of_member() for part in parts]
    columns = [case((condition, 1), else_=0) for condition in conditions]
    return select(*_DESCRIBED, *columns).select_from(resource_providers)


def conditions_of(forest: Forest) -> int:
    """Return how many conditions a provider is asked, about."""
    groups = [forest.parts[positions[0]].group for positions in _alike(forest)]
    return sum(
        len(group.resources)
        + len(group.traits.required)
        + len(group.traits.forbidden)
        + len(group.aggregates.member_of)
        for group in groups
    )


def _alike(forest: Forest) -> list[tuple[int, ...]]:
    """Return the positions of the slots that ask the same, together."""
    alike: dict[object, list[int]] = {}
    for position, part in enumerate(forest.parts):
        alike.setdefault(part.demand, []).append(position)
    return [tuple(positions) for positions in alike.values()]


def _read(
    connection: Connection, forest: Forest, statements: Sequence[Select[*tuple[Any, ...]]]
) -> list[Member]:
    slots = _alike(forest)
    known: dict[tuple[int, ...], tuple[int, ...]] = {}
    found = []
    for statement in statements:
        for row in connection.execute(statement).all():
            flags = row[len(_DESCRIBED) :]
            serves = known.get(flags)
            if serves is None:
                serves = known[flags] = _met(flags, slots)
            found.append(Member._make((*row[: len(_DESCRIBED)], serves)))
    return found


def _met(flags: Sequence[int], slots: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    met = zip(flags, slots, strict=True)
    return tuple(sorted(position for flag, positions in met if flag for position in positions))


def described(
    members: Mapping[int, Member], ids: Iterable[int]
) -> tuple[list[CandidateProvider], list[int]]:
    """Return the providers of these ids, and the ids of those whose root or parent is unknown."""
    own, others = [], []
    for key in ids:
        member = members[key]
        if member.root in members and (member.parent is None or member.parent in members):
            own.append(_provider(member, members))
        else:
            others.append(key)
    return own, others


def trees_of(members: Mapping[int, Member], ids: Iterable[int]) -> tuple[CandidateProvider, ...]:
    """Return all providers of the trees that these are of, by id; all of them are members."""
    roots = {members[key].root for key in ids}
    whole = [member for member in members.values() if member.root in roots]
    return tuple([_provider(member, members) for member in sorted(whole)])


def _provider(member: Member, members: Mapping[int, Member]) -> CandidateProvider:
    parent = member.parent
    return CandidateProvider(
        member.id,
        member.uuid,
        member.generation,
        members[member.root].uuid,
        None if parent is None else members[parent].uuid,
    )
