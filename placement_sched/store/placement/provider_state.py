# SPDX-License-Identifier: Apache-2.0
"""Bulk reads of the scheduling data of providers, thousands per statement.

Each row of a result is a text with JSON arrays of numbers for about ten providers, because drivers
written in Python are slow for each row. The first number of an array is its kind.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import orjson
import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Select

from placement_sched.db import tables
from placement_sched.db.collations import convert_to_unicode
from placement_sched.db.sql import ArrayText, format_array, select_scalars_in_batches
from placement_sched.model.grouping import split_batches

#: Number of providers per statement when all providers are read.
PROVIDERS_PER_STATEMENT = 10_000

_PROVIDER, _INVENTORY, _USED, _TRAITS, _AGGREGATES = range(5)

#: Number of provider ids per sum.
BATCH = 1000
#: Number of provider ids per text. On MariaDB group_concat_max_len (1 MB) limits the text, which is
#: enough for 1000 inventories of each provider.
PROVIDERS_PER_TEXT = 10

#: A row of numbers or None. The row of a provider also contains its uuid.
Row = Sequence[Any]


@dataclass(frozen=True, slots=True)
class ProviderRows:
    """Rows of providers and their details, each beginning with a provider id.

    ``providers``: id, uuid, generation, root id and parent id (0 for none). ``inventories``: id,
    class, total, reserved, min_unit, max_unit, step_size, ratio. ``used``: id, class, sum of all
    allocations. ``traits`` and ``aggregates``: id, then the ids of all traits or aggregates.
    """

    providers: list[Row] = field(default_factory=list)
    inventories: list[Row] = field(default_factory=list)
    used: list[Row] = field(default_factory=list)
    traits: list[Row] = field(default_factory=list)
    aggregates: list[Row] = field(default_factory=list)


class ProviderSums(NamedTuple):
    """Number of providers, and sums of their generations and used amounts."""

    providers: int = 0
    generations: int = 0
    used: int = 0


@dataclass(frozen=True, slots=True)
class NameIds:
    """The ids of all resource classes, traits and aggregates by name or uuid.

    ``ignores_case`` is true if the database ignores the case of texts.
    """

    classes: dict[str, int]
    traits: dict[str, int]
    aggregates: dict[str, int]
    ignores_case: bool


def read_providers(connection: Connection, ids: Collection[int]) -> ProviderRows:
    """Read the rows of existing providers, some thousands per statement."""
    rows = ProviderRows()
    is_array = connection.dialect.name == "postgresql"
    statement = _build_statement(connection.dialect.name, whole=False)
    for batch in split_batches(sorted(ids), PROVIDERS_PER_STATEMENT // 2):
        _read_into(connection, statement, {"ids": format_array(batch) if is_array else batch}, rows)
    return rows


def read_all_providers(connection: Connection) -> Iterator[ProviderRows]:
    """Yield all providers by id, some thousands at a time and moment."""
    key = tables.resource_providers.c.id
    ids = connection.scalars(sa.select(key).order_by(key)).all()
    statement = _build_statement(connection.dialect.name, whole=True)
    for batch in split_batches(ids, PROVIDERS_PER_STATEMENT):
        rows = ProviderRows()
        _read_into(connection, statement, {"first": batch[0], "last": batch[-1]}, rows)
        yield rows


def read_sums(connection: Connection) -> dict[int, ProviderSums]:
    """Map batch numbers to the sums of the batch's providers.

    Batch N is the ids from N * :data:`BATCH` to (N + 1) * :data:`BATCH` - 1. Allocations without an
    inventory are ignored. Executes two statements.
    """
    provider, inventory, usage = (
        tables.resource_providers.c,
        tables.inventories.c,
        tables.allocations.c,
    )
    batch, generation = provider.id // BATCH, sa.func.coalesce(provider.generation, 0)
    query = sa.select(batch, sa.func.count(), sa.func.sum(generation)).group_by(batch)
    allocation_batch = usage.resource_provider_id // BATCH
    is_same_inventory = sa.and_(
        inventory.resource_provider_id == usage.resource_provider_id,
        inventory.resource_class_id == usage.resource_class_id,
    )
    used = (
        sa.select(allocation_batch, sa.func.sum(usage.used))
        .select_from(tables.allocations.join(tables.inventories, is_same_inventory))
        .group_by(allocation_batch)
    )
    amounts = {int(number): int(amount) for number, amount in connection.execute(used)}
    return {
        int(number): ProviderSums(count, int(generations), amounts.get(int(number), 0))
        for number, count, generations in connection.execute(query)
    }


def list_ids_in_batches(connection: Connection, numbers: Collection[int]) -> set[int]:
    """Return the ids of existing providers in the batches with these numbers."""
    key = tables.resource_providers.c.id
    return set(select_scalars_in_batches(connection, sa.select(key), key // BATCH, numbers))


def build_empty_names(connection: Connection) -> NameIds:
    """Return empty mappings, for callers that need no names."""
    return NameIds({}, {}, {}, ignores_case=_ignores_case(connection))


def _ignores_case(connection: Connection) -> bool:
    return connection.dialect.name in {"mysql", "mariadb"}


def read_names(connection: Connection, *, with_aggregates: bool = True) -> NameIds:
    """Read the ids of all names in a single statement."""
    columns = (
        tables.resource_classes.c.name,
        tables.traits.c.name,
        tables.placement_aggregates.c.uuid,
    )
    parts = [
        sa.select(sa.literal(kind), column.table.c.id, convert_to_unicode(column))
        for kind, column in enumerate(columns if with_aggregates else columns[:-1])
    ]
    ids_by_kind: tuple[dict[str, int], ...] = ({}, {}, {})
    for kind, key, name in connection.execute(sa.union_all(*parts)).all():
        ids_by_kind[kind][name] = key
    classes, traits, aggregates = ids_by_kind
    return NameIds(classes, traits, aggregates, ignores_case=_ignores_case(connection))


def _read_into(
    connection: Connection, statement: Any, parameters: dict[str, Any], into: ProviderRows
) -> None:
    texts = connection.scalars(statement, parameters).all()
    lists = [into.providers, into.inventories, into.used, into.traits, into.aggregates]
    for batch in split_batches(texts, PROVIDERS_PER_STATEMENT):
        for row in orjson.loads(f"[[{'],['.join(batch)}]]"):
            lists[row[0]].append(row[1:])


@cache
def _build_statement(dialect: str, *, whole: bool) -> sa.CompoundSelect[*tuple[Any, ...]]:
    providers, inventories = tables.resource_providers.c, tables.inventories.c
    allocations = tables.allocations.c
    traits, aggregates = tables.resource_provider_traits.c, tables.resource_provider_aggregates.c

    def is_selected(key: ColumnElement[int]) -> ColumnElement[bool]:
        if whole:
            return key.between(sa.bindparam("first"), sa.bindparam("last"))
        if dialect == "postgresql":
            array = sa.bindparam("ids", type_=ArrayText(sa.Integer()))
            return key == sa.any_(array)
        return key.in_(sa.bindparam("ids", expanding=True))

    def select_rows(
        kind: int, owner: ColumnElement[int], *values: ColumnElement[Any]
    ) -> Select[str, int]:
        line = _join_values(dialect, [sa.literal_column(str(kind)), owner, *values])
        part = (owner // PROVIDERS_PER_TEXT).label("part")
        return sa.select(convert_to_unicode(line).label("line"), part).where(is_selected(owner))

    def select_id_lists(
        kind: int, key: ColumnElement[int], value: ColumnElement[int]
    ) -> Select[str, int]:
        all_of_it = sa.func.aggregate_strings(_cast_to_text(dialect, value), ",")
        return select_rows(kind, key, all_of_it).group_by(key)

    def join_lines(rows_of_kind: Select[str, int]) -> Select[str]:
        lines = rows_of_kind.subquery().c
        return sa.select(sa.func.aggregate_strings(lines.line, "],[")).group_by(lines.part)

    uuid = sa.literal_column("'\"'").concat(providers.uuid).concat(sa.literal_column("'\"'"))
    numbers = (
        sa.func.coalesce(providers[name], 0)
        for name in ("generation", "root_provider_id", "parent_provider_id")
    )
    names = ("total", "reserved", "min_unit", "max_unit", "step_size")
    amounts = [inventories[name] for name in names]
    owner, user = inventories.resource_provider_id, allocations.resource_provider_id
    ratio = _cast_exactly(dialect, inventories.allocation_ratio)
    inventory = select_rows(_INVENTORY, owner, inventories.resource_class_id, *amounts, ratio)
    used = select_rows(_USED, user, allocations.resource_class_id, sa.func.sum(allocations.used))
    parts = (
        select_rows(_PROVIDER, providers.id, uuid, *numbers),
        inventory,
        used.group_by(user, allocations.resource_class_id),
        select_id_lists(_TRAITS, traits.resource_provider_id, traits.trait_id),
        select_id_lists(_AGGREGATES, aggregates.resource_provider_id, aggregates.aggregate_id),
    )
    return sa.union_all(*map(join_lines, parts))


def _join_values(dialect: str, values: Iterable[ColumnElement[Any]]) -> ColumnElement[str]:
    if dialect != "sqlite":
        return sa.func.concat_ws(sa.literal_column("','"), *values, type_=sa.Text())
    text, *remaining = (_cast_to_text(dialect, value) for value in values)
    for value in remaining:
        text = text.concat(sa.literal_column("','")).concat(value)
    return text


def _cast_to_text(dialect: str, value: ColumnElement[Any]) -> ColumnElement[str]:
    return sa.cast(value, sa.CHAR if dialect in {"mysql", "mariadb"} else sa.Text)


def _cast_exactly(dialect: str, ratio: ColumnElement[float]) -> ColumnElement[Any]:
    if dialect == "sqlite":  # CAST to text keeps only 15 digits
        return sa.func.printf(sa.literal_column("'%!.17g'"), ratio)
    return _cast_to_text(dialect, ratio)
