"""All that placing goes by of many providers, read at once: one statement for thousands.

Each row is a text of JSON arrays of numbers, about ten providers. The first number of an
array says what it is about. For drivers that are written in Python a row costs more than the text.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import orjson
import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Select

from placement_sched.db import tables
from placement_sched.db.collations import in_unicode
from placement_sched.db.sql import ArrayText, array_text, batches, rows_among, uses_ids_again

#: So many providers are read at once where all are.
AT_ONCE = 10_000

_PROVIDER, _INVENTORY, _USED, _TRAITS, _AGGREGATES = range(5)
_SEVERAL = 5

#: So many ids have one sum.
BATCH = 1000
#: The providers of so many ids come in one text. On MariaDB group_concat_max_len, a megabyte,
#: bounds it: enough for a thousand inventories of each.
TOGETHER = 10

#: A row of numbers, or of None; a provider's has its uuid as well.
Row = Sequence[Any]


@dataclass(frozen=True, slots=True)
class ProviderRows:
    """What some providers are and have; every row begins with a provider's id.

    ``providers``: id, uuid, generation, root's id and parent's id, 0 for none. ``inventories``: id,
    class, total, reserved, min_unit, max_unit, step_size, ratio. ``used``: id, class, sum of all
    allocations. ``traits`` and ``aggregates``: id, then the ids of all its traits or aggregates.
    """

    providers: list[Row] = field(default_factory=list)
    inventories: list[Row] = field(default_factory=list)
    used: list[Row] = field(default_factory=list)
    traits: list[Row] = field(default_factory=list)
    aggregates: list[Row] = field(default_factory=list)


class Sums(NamedTuple):
    """The number of some providers, the sum of their generations, and of all that is used there."""

    providers: int = 0
    generations: int = 0
    used: int = 0


@dataclass(frozen=True, slots=True)
class KnownNames:
    """The ids of all resource classes, traits and aggregates, by their names and uuids.

    ``ids_recur``: a new provider may get the id of a deleted one. ``ignores_case``: texts are equal
    whatever the case of their letters.
    """

    classes: dict[str, int]
    traits: dict[str, int]
    aggregates: dict[str, int]
    ids_recur: bool
    ignores_case: bool


def read_providers(connection: Connection, ids: Collection[int]) -> ProviderRows:
    """Return what the providers of these ids are and have; one statement for some thousands.

    Those that are not there are left out.
    """
    found = ProviderRows()
    array = connection.dialect.name == "postgresql"
    statement = _statement(connection.dialect.name, whole=False)
    for batch in batches(sorted(ids), AT_ONCE // 2):
        _sort(connection, statement, {"ids": array_text(batch) if array else batch}, found)
    return found


def read_all_providers(connection: Connection) -> Iterator[ProviderRows]:
    """Yield what all providers are and have, some thousands at a time, by id.

    Each of these sees a moment of its own.
    """
    key = tables.resource_providers.c.id
    ids = connection.scalars(sa.select(key).order_by(key)).all()
    statement = _statement(connection.dialect.name, whole=True)
    for batch in batches(ids, AT_ONCE):
        found = ProviderRows()
        _sort(connection, statement, {"first": batch[0], "last": batch[-1]}, found)
        yield found


def read_sums(connection: Connection) -> dict[int, Sums]:
    """Return the sums of batches of :data:`BATCH` ids, by the number of the batch.

    Only what is used of an inventory counts. Two statements.
    """
    providers, stock, held = tables.resource_providers.c, tables.inventories.c, tables.allocations.c
    batch, generation = providers.id // BATCH, sa.func.coalesce(providers.generation, 0)
    every = sa.select(batch, sa.func.count(), sa.func.sum(generation)).group_by(batch)
    batch_held = held.resource_provider_id // BATCH
    is_same = sa.and_(
        stock.resource_provider_id == held.resource_provider_id,
        stock.resource_class_id == held.resource_class_id,
    )
    used = (
        sa.select(batch_held, sa.func.sum(held.used))
        .select_from(tables.allocations.join(tables.inventories, is_same))
        .group_by(batch_held)
    )
    amounts = {int(number): int(amount) for number, amount in connection.execute(used)}
    return {
        int(number): Sums(count, int(generations), amounts.get(int(number), 0))
        for number, count, generations in connection.execute(every)
    }


def ids_in(connection: Connection, numbers: Collection[int]) -> set[int]:
    """Return the ids of the providers that are there in these batches of ids."""
    key = tables.resource_providers.c.id
    rows = rows_among(connection, sa.select(key), key // BATCH, numbers)
    return {row[0] for row in rows}


def no_names(connection: Connection) -> KnownNames:
    """Return no names, for columns whose summaries are not made."""
    return KnownNames({}, {}, {}, ids_recur=False, ignores_case=_ignores_case(connection))


def _ignores_case(connection: Connection) -> bool:
    return connection.dialect.name in {"mysql", "mariadb"}


def read_names(connection: Connection, *, with_aggregates: bool = True) -> KnownNames:
    """Return the ids of all names, in one statement."""
    again = uses_ids_again(connection, tables.resource_providers)
    named = (
        tables.resource_classes.c.name,
        tables.traits.c.name,
        tables.placement_aggregates.c.uuid,
    )
    parts = [
        sa.select(sa.literal(kind), column.table.c.id, in_unicode(column))
        for kind, column in enumerate(named if with_aggregates else named[:-1])
    ]
    parts.append(sa.select(sa.literal(len(named)), sa.case((again, 1), else_=0), sa.literal("")))
    found: tuple[dict[str, int], ...] = ({}, {}, {}, {})
    for kind, key, name in connection.execute(sa.union_all(*parts)).all():
        found[kind][name] = key
    classes, traits, aggregates, recur = found
    return KnownNames(
        classes,
        traits,
        aggregates,
        ids_recur=bool(recur[""]),
        ignores_case=_ignores_case(connection),
    )


def _sort(
    connection: Connection, statement: Any, parameters: dict[str, Any], into: ProviderRows
) -> None:
    """Read rows into the lists where they belong."""
    texts = connection.scalars(statement, parameters).all()
    places = [into.providers, into.inventories, into.used, into.traits, into.aggregates]
    for some in batches(texts, AT_ONCE):
        for row in orjson.loads(f"[[{'],['.join(some)}]]"):
            places[row[0]].append(row[1:])


@cache
def _statement(dialect: str, *, whole: bool) -> sa.CompoundSelect[*tuple[Any, ...]]:
    """Return the statement about the providers between two ids, or of some ids."""
    providers, inventories = tables.resource_providers.c, tables.inventories.c
    held = tables.allocations.c
    carried, joined = tables.resource_provider_traits.c, tables.resource_provider_aggregates.c

    def wanted(key: ColumnElement[int]) -> ColumnElement[bool]:
        if whole:
            return key.between(sa.bindparam("first"), sa.bindparam("last"))
        if dialect == "postgresql":
            array = sa.bindparam("ids", type_=ArrayText(sa.Integer()))
            return key == sa.any_(array)
        return key.in_(sa.bindparam("ids", expanding=True))

    def rows(kind: int, owner: ColumnElement[int], *values: ColumnElement[Any]) -> Select[str, int]:
        line = _joined(dialect, [sa.literal_column(str(kind)), owner, *values])
        part = (owner // TOGETHER).label("part")
        return sa.select(in_unicode(line).label("line"), part).where(wanted(owner))

    def several(kind: int, key: ColumnElement[int], value: ColumnElement[int]) -> Select[str, int]:
        all_of_it = sa.func.aggregate_strings(_text(dialect, value), ",")
        return rows(kind, key, all_of_it).group_by(key)

    def together(one: Select[str, int]) -> Select[str]:
        lines = one.subquery().c
        return sa.select(sa.func.aggregate_strings(lines.line, "],[")).group_by(lines.part)

    uuid = sa.literal_column("'\"'").concat(providers.uuid).concat(sa.literal_column("'\"'"))
    numbers = (
        sa.func.coalesce(column, 0)
        for column in (
            providers.generation,
            providers.root_provider_id,
            providers.parent_provider_id,
        )
    )
    amounts = (
        inventories.total,
        inventories.reserved,
        inventories.min_unit,
        inventories.max_unit,
        inventories.step_size,
    )
    owner, user = inventories.resource_provider_id, held.resource_provider_id
    ratio = _exact(dialect, inventories.allocation_ratio)
    inventory = rows(_INVENTORY, owner, inventories.resource_class_id, *amounts, ratio)
    used = rows(_USED, user, held.resource_class_id, sa.func.sum(held.used))
    parts = (
        rows(_PROVIDER, providers.id, uuid, *numbers),
        inventory,
        used.group_by(user, held.resource_class_id),
        several(_TRAITS, carried.resource_provider_id, carried.trait_id),
        several(_AGGREGATES, joined.resource_provider_id, joined.aggregate_id),
    )
    return sa.union_all(*map(together, parts))


def _joined(dialect: str, values: Iterable[ColumnElement[Any]]) -> ColumnElement[str]:
    """Return values as a text with commas."""
    if dialect != "sqlite":
        return sa.func.concat_ws(sa.literal_column("','"), *values, type_=sa.Text())
    first, *others = (_text(dialect, value) for value in values)
    for value in others:
        first = first.concat(sa.literal_column("','")).concat(value)
    return first


def _text(dialect: str, value: ColumnElement[Any]) -> ColumnElement[str]:
    return sa.cast(value, sa.CHAR if dialect in {"mysql", "mariadb"} else sa.Text)


def _exact(dialect: str, ratio: ColumnElement[float]) -> ColumnElement[Any]:
    """Return a ratio as a text that is read as the number that a client reads."""
    if dialect == "sqlite":  # whose texts of numbers have fifteen digits
        return sa.func.printf(sa.literal_column("'%!.17g'"), ratio)
    return _text(dialect, ratio)
