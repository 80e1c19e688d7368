"""Which providers a list of them shows: one statement whatever is asked."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any

import orjson
from sqlalchemy import (
    Column,
    ColumnElement,
    CompoundSelect,
    Connection,
    Integer,
    Subquery,
    and_,
    bindparam,
    column,
    exists,
    func,
    not_,
    or_,
    select,
    text,
    union,
)

from placement_sched.db import tables
from placement_sched.db.frequent_statements import FrequentStatement
from placement_sched.db.sql import Condition
from placement_sched.errors import Invalid
from placement_sched.model.placement.provider import Provider
from placement_sched.model.placement.query import AggregateTerms, TraitTerms
from placement_sched.store.placement import aggregates, resource_classes, traits
from placement_sched.store.placement.capacity import has_room
from placement_sched.store.placement.resource_providers import PROVIDERS, read_providers, spelled

_PROVIDERS = tables.resource_providers.c


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderQuery:
    """What providers are asked for; what is None or empty asks for nothing.

    ``in_tree`` is the uuid of any provider of the tree; ``resources`` are amounts by class that
    must be free on the provider itself.
    """

    name: str | None = None
    uuid: str | None = None
    in_tree: str | None = None
    resources: Mapping[str, int] = field(default_factory=dict)
    traits: TraitTerms = field(default_factory=TraitTerms)
    aggregates: AggregateTerms = field(default_factory=AggregateTerms)


def search(connection: Connection, query: ProviderQuery) -> tuple[Provider, ...]:
    """Return the providers that meet the query, by id.

    Raises :class:`Invalid` for a trait or resource class that does not exist.
    """
    conditions = [
        *_with_traits(connection, query.traits),
        *_with_resources(connection, query.resources),
        *_with_aggregates(connection, query.aggregates),
    ]
    uuids, members = _spellings(query.uuid), _spellings(query.in_tree)
    named = _named(by_name=bool(query.name), uuids=len(uuids), members=len(members))
    names = {
        "name": query.name,
        **_numbered("asked_uuid", uuids),
        **_numbered("asked_member", members),
    }
    question = named.statement.where(*conditions) if conditions else named
    found = read_providers(connection, question, names)
    # MariaDB compares names without regard to case, or to spaces at their end.
    return tuple(one for one in found if not query.name or one.name == query.name)


# What each compute asks every minute names a tree and nothing else: the few forms of such questions
# are each built once.


@cache
def _named(*, by_name: bool, uuids: int, members: int) -> FrequentStatement:
    """Return the question for a provider, a tree or both; their uuids have so many spellings."""
    question = PROVIDERS
    if by_name:
        question = question.where(_PROVIDERS.name == bindparam("name"))
    if uuids:
        question = question.where(_is_one_of(_PROVIDERS.uuid, "asked_uuid", uuids))
    if members:
        tree = _tree(members).subquery("tree")
        question = question.join(tree, tree.c.id == _PROVIDERS.id)
    return FrequentStatement(question)


def _tree(members: int) -> CompoundSelect[Any]:
    """Return the question for the ids of a member of a tree and of all that have its root.

    By "or" each database would look at every provider that there is. From before nested providers
    the member may have no root.
    """
    member, fellow = (tables.resource_providers.alias(name) for name in ("member", "fellow"))
    is_named = _is_one_of(member.c.uuid, "asked_member", members)
    have_its_root = fellow.c.root_provider_id == member.c.root_provider_id
    return union(
        select(member.c.id).where(is_named),
        select(fellow.c.id).join_from(member, fellow, have_its_root).where(is_named),
    )


def _is_one_of(column: ColumnElement[str], name: str, number: int) -> Condition:
    """Return whether a column is one of the parameters that :func:`_numbered` makes.

    ``name`` is that of no column: SQLAlchemy names its own parameters by the columns, with numbers.
    """
    values = [bindparam(f"{name}_{index}", type_=column.type) for index in range(number)]
    return column == values[0] if number == 1 else column.in_(values)


def _numbered(name: str, values: Collection[str]) -> dict[str, str]:
    return {f"{name}_{index}": value for index, value in enumerate(values)}


def _spellings(uuid: str | None) -> list[str]:
    return sorted(set(spelled(uuid).values())) if uuid else []


def _with_resources(connection: Connection, amounts: Mapping[str, int]) -> list[Condition]:
    ids = resource_classes.ids_by_name(connection, amounts)
    if missing := sorted(set(amounts) - set(ids)):
        raise Invalid(
            "Invalid resource class in resources parameter: "
            f"No such resource class {', '.join(missing)}."
        )
    if not amounts:
        return []
    # Each database plans one search for all in less time than one for each: PostgreSQL takes half a
    # minute to order two hundred joins.
    owned = tables.inventories.alias()
    each = [
        and_(owned.c.resource_class_id == ids[name], has_room(owned, amount))
        for name, amount in amounts.items()
    ]
    provider = owned.c.resource_provider_id
    if len(each) == 1:
        return [exists().where(provider == _PROVIDERS.id, *each)]
    found = select(provider).where(or_(*each)).group_by(provider)
    return [_PROVIDERS.id.in_(found.having(func.count() == len(each)))]


def _with_traits(connection: Connection, terms: TraitTerms) -> list[Condition]:
    ids = traits.ids_by_name(connection, terms.names)
    if missing := sorted(terms.names - set(ids)):
        raise Invalid(
            f'Invalid trait(s) in "required" parameter: No such trait(s): {", ".join(missing)}.'
        )
    return _with_members(
        connection,
        tables.resource_provider_traits.c.trait_id,
        [[ids[name] for name in any_of] for any_of in terms.required],
        [ids[name] for name in terms.forbidden],
    )


def _with_aggregates(connection: Connection, terms: AggregateTerms) -> list[Condition]:
    # An aggregate that is not there has no provider. MariaDB compares uuids without regard to case.
    found = aggregates.ids_by_uuid(connection, terms.uuids) if terms.uuids else {}
    ids = {uuid.lower(): number for uuid, number in found.items()}
    return _with_members(
        connection,
        tables.resource_provider_aggregates.c.aggregate_id,
        [[ids[uuid] for uuid in any_of if uuid in ids] for any_of in terms.member_of],
        [ids[uuid] for uuid in terms.forbidden if uuid in ids],
    )


def _with_members(
    connection: Connection,
    member: Column[int],
    required: Sequence[Collection[int]],
    forbidden: Collection[int],
) -> list[Condition]:
    """Return the conditions on pairs of a provider and a ``member``: a trait or an aggregate."""
    provider = member.table.c.resource_provider_id
    conditions: list[Condition] = []
    if len(required) == 1:
        conditions.append(exists().where(provider == _PROVIDERS.id, member.in_(required[0])))
    elif required:
        asked = _numbered_sets(connection, required)
        found = select(provider).join(asked, asked.c.member == member).group_by(provider)
        number = func.count(asked.c.number.distinct())
        conditions.append(_PROVIDERS.id.in_(found.having(number == len(required))))
    if forbidden:
        conditions.append(not_(exists().where(provider == _PROVIDERS.id, member.in_(forbidden))))
    return conditions


#: Reads a JSON array of pairs.
_PAIRS = MappingProxyType(
    {
        "postgresql": "SELECT CAST(pair->>0 AS integer) AS number, "
        "CAST(pair->>1 AS integer) AS member "
        "FROM json_array_elements(CAST(:pairs AS json)) AS pair",
        "sqlite": "SELECT json_extract(value, '$[0]') AS number, "
        "json_extract(value, '$[1]') AS member FROM json_each(:pairs)",
        "mysql": "SELECT number, member FROM JSON_TABLE(:pairs, '$[*]' COLUMNS "
        "(number INTEGER PATH '$[0]', member INTEGER PATH '$[1]')) AS pairs",
    }
)


def _numbered_sets(connection: Connection, sets: Sequence[Collection[int]]) -> Subquery:
    """Return a table of each member of each set, with the number of the set.

    So the statement is the same however many sets are asked for: with a condition for each,
    PostgreSQL takes half a minute to plan two hundred.
    """
    pairs = [(number, member) for number, members in enumerate(sets) for member in sorted(members)]
    kind = connection.dialect.name
    asked = text(_PAIRS["mysql" if kind == "mariadb" else kind])
    return (
        asked.bindparams(pairs=orjson.dumps(pairs).decode())
        .columns(column("number", Integer), column("member", Integer))
        .subquery("asked")
    )
