"""Resolve the names in a request to ids, or raise for those that do not exist.

The same statement finds whether there are any child providers and sharing providers.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from placement_sched.db import tables
from placement_sched.db.collations import in_unicode
from placement_sched.errors import UnknownNames
from placement_sched.model.placement.provider import SHARES
from placement_sched.model.placement.query import CandidatesQuery

_CLASS, _TRAIT, _AGGREGATE, _TOPOLOGY = range(4)


@dataclass(frozen=True, slots=True)
class Topology:
    """Whether the cloud has any child provider, and any sharing provider."""

    nested: bool
    sharing: bool

    @property
    def flat(self) -> bool:
        """Return whether every provider stands alone."""
        return not (self.nested or self.sharing)


@dataclass(frozen=True, slots=True)
class ResolvedNames:
    """Ids of every resource class, and of the traits and aggregates that a request names.

    An aggregate that does not exist has no id: it has no members.
    """

    classes: Mapping[str, int]
    traits: Mapping[str, int]
    aggregates: Mapping[str, int]
    topology: Topology

    def aggregate_ids(self, uuids: Iterable[str]) -> frozenset[int]:
        """Return the ids of those of these aggregates that exist."""
        known = self.aggregates
        return frozenset(known[uuid] for uuid in uuids if uuid in known)

    @property
    def class_names(self) -> dict[int, str]:
        """Return the name of every resource class by its id."""
        return {number: name for name, number in self.classes.items()}


def resolve(connection: Connection, query: CandidatesQuery) -> ResolvedNames:
    """Return the ids of all names used, found with one statement.

    Raises :class:`UnknownNames` for classes and traits that do not exist, naming each of them.
    """
    wanted_traits = _traits_of(query) | {SHARES}
    wanted_aggregates = {uuid for group in query.groups for uuid in group.aggregates.uuids}
    statement = _statement(with_aggregates=bool(wanted_aggregates))
    values = {"traits": sorted(wanted_traits), "aggregates": sorted(wanted_aggregates)}
    found: tuple[dict[str, int], ...] = ({}, {}, {}, {})
    for kind, number, name in connection.execute(statement, values).all():
        found[kind][name] = number
    classes, trait_ids, aggregates, shapes = found
    topology = Topology(nested=bool(shapes["nested"]), sharing=bool(shapes["sharing"]))
    return checked(query, ResolvedNames(classes, trait_ids, aggregates, topology))


def checked(query: CandidatesQuery, names: ResolvedNames) -> ResolvedNames:
    """Return the names; raise :class:`UnknownNames` for those of the query that are not there."""
    words = "Invalid resource class in resources parameter: No such resource class"
    classes = {name for group in query.groups for name, _ in group.resources}
    _check("resource class", words, classes, names.classes)
    _check("trait(s)", "No such trait(s):", _traits_of(query), names.traits)
    return names


def _traits_of(query: CandidatesQuery) -> frozenset[str]:
    return query.root.names.union(*(group.traits.names for group in query.groups))


def _check(kind: str, words: str, wanted: AbstractSet[str], known: Mapping[str, int]) -> None:
    if lacking := sorted(wanted - known.keys()):
        raise UnknownNames(f"{words} {', '.join(lacking)}.", kind=kind, names=lacking)


# Each form is built once: building takes longer than executing.
@cache
def _statement(*, with_aggregates: bool) -> sa.CompoundSelect[*tuple[Any, ...]]:
    traits, classes = tables.traits.c, tables.resource_classes.c
    shares = sa.select(traits.id).where(traits.name == SHARES).scalar_subquery()
    # Each of these is answered by an index.
    any_child = sa.exists().where(tables.resource_providers.c.parent_provider_id.is_not(None))
    any_sharing = sa.exists().where(tables.resource_provider_traits.c.trait_id == shares)
    named = traits.name.in_(sa.bindparam("traits", expanding=True))
    parts: list[sa.Select[*tuple[Any, ...]]] = [
        sa.select(sa.literal(_TRAIT), traits.id, in_unicode(traits.name)).where(named),
        sa.select(sa.literal(_CLASS), classes.id, in_unicode(classes.name)),
        sa.select(sa.literal(_TOPOLOGY), sa.case((any_child, 1), else_=0), sa.literal("nested")),
        sa.select(sa.literal(_TOPOLOGY), sa.case((any_sharing, 1), else_=0), sa.literal("sharing")),
    ]
    if with_aggregates:
        known = tables.placement_aggregates.c
        named = known.uuid.in_(sa.bindparam("aggregates", expanding=True))
        parts.append(
            sa.select(sa.literal(_AGGREGATE), known.id, in_unicode(known.uuid)).where(named)
        )
    return sa.union_all(*parts)
