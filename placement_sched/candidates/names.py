"""Turns the names in a question into ids, or says which name there is not.

The same statement tells which shapes of providers there are, which costs no round trip so.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import CompoundSelect, Connection, Select, bindparam, literal, select, union_all

from placement_sched.candidates.topology import Topology, nested, sharing
from placement_sched.db.tables import placement_aggregates, resource_classes, traits
from placement_sched.errors import UnknownNames
from placement_sched.model.query import CandidatesQuery

_CLASS, _TRAIT, _AGGREGATE, _SHAPE = range(4)


@dataclass(frozen=True, slots=True)
class Names:
    """Ids of every resource class there is, and of the traits and aggregates a question names.

    An aggregate that is not there has no id: nobody is in it.
    """

    classes: Mapping[str, int]
    traits: Mapping[str, int]
    aggregates: Mapping[str, int]
    topology: Topology

    @property
    def class_names(self) -> dict[int, str]:
        """Return the name of every resource class by its id."""
        return {number: name for name, number in self.classes.items()}


def resolve(connection: Connection, query: CandidatesQuery) -> Names:
    """Return the ids of all names used, found with one statement.

    Raises :class:`UnknownNames` for classes and traits that do not exist, naming each of them.
    """
    wanted_classes = {name for group in query.groups for name, _ in group.resources}
    wanted_traits = {name for group in query.groups for name in group.traits.names}
    wanted_aggregates = {uuid for group in query.groups for uuid in group.aggregates.uuids}
    names = _look_up(connection, wanted_traits | query.root.names, wanted_aggregates)
    _check(
        "resource class",
        "Invalid resource class in resources parameter: No such resource class",
        wanted_classes,
        names.classes,
    )
    _check("trait(s)", "No such trait(s):", wanted_traits | query.root.names, names.traits)
    return names


def _check(kind: str, words: str, wanted: AbstractSet[str], known: Mapping[str, int]) -> None:
    """Raise :class:`UnknownNames`, opening with ``words``, where names are not known."""
    if lacking := sorted(wanted - known.keys()):
        raise UnknownNames(f"{words} {', '.join(lacking)}.", kind=kind, names=lacking)


def _look_up(connection: Connection, trait_names: set[str], aggregate_uuids: set[str]) -> Names:
    question = _question(with_traits=bool(trait_names), with_aggregates=bool(aggregate_uuids))
    given = {"traits": sorted(trait_names), "aggregates": sorted(aggregate_uuids)}
    found: tuple[dict[str, int], ...] = ({}, {}, {}, {})
    for kind, number, name in connection.execute(question, given).all():
        found[kind][name] = number
    classes, trait_ids, aggregates, shapes = found
    shape = Topology(nested=bool(shapes["nested"]), sharing=bool(shapes["sharing"]))
    return Names(classes, trait_ids, aggregates, shape)


# Each form is built once: that takes longer than asking it.
@cache
def _question(*, with_traits: bool, with_aggregates: bool) -> CompoundSelect[*tuple[Any, ...]]:
    """Return the question for all classes and the shape of the cloud, and for what is named."""
    parts: list[Select[*tuple[Any, ...]]] = [
        select(literal(_CLASS), resource_classes.c.id, resource_classes.c.name),
        select(literal(_SHAPE), nested(), literal("nested")),
        select(literal(_SHAPE), sharing(), literal("sharing")),
    ]
    if with_traits:
        named = traits.c.name.in_(bindparam("traits", expanding=True))
        parts.append(select(literal(_TRAIT), traits.c.id, traits.c.name).where(named))
    if with_aggregates:
        known = placement_aggregates.c
        among_them = known.uuid.in_(bindparam("aggregates", expanding=True))
        parts.append(select(literal(_AGGREGATE), known.id, known.uuid).where(among_them))
    return union_all(*parts)
