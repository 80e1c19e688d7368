"""What tables, columns and indexes a database has, to tell afterwards what a step has added."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, inspect

from placement_sched.db.tables import OWN_TABLES, PLACEMENT_TABLES

_KNOWN = frozenset(table.name for table in (*OWN_TABLES, *PLACEMENT_TABLES))


@dataclass(frozen=True, slots=True)
class Layout:
    """The names of all tables, and by table those of columns and indexes of the known ones."""

    tables: frozenset[str]
    columns: Mapping[str, frozenset[str]]
    indexes: Mapping[str, frozenset[str]]

    def columns_since(self, before: "Layout") -> tuple[str, ...]:
        """Return as ``table.column`` which columns were added to the tables of before."""
        return tuple(f"{table}.{name}" for table, name in _more(self.columns, before.columns))

    def indexes_since(self, before: "Layout") -> tuple[str, ...]:
        """Return which indexes were made on the tables of before."""
        return tuple(name for _, name in _more(self.indexes, before.indexes))


def look(connection: Connection) -> Layout:
    """Return what the database has."""
    inspector = inspect(connection)
    there = frozenset(inspector.get_table_names())
    known = sorted(there & _KNOWN)
    columns = inspector.get_multi_columns(filter_names=known) if known else {}
    indexes = inspector.get_multi_indexes(filter_names=known) if known else {}
    return Layout(
        tables=there,
        columns={table: _names(some) for (_, table), some in columns.items()},
        indexes={table: _names(some) for (_, table), some in indexes.items()},
    )


def _names(some: Iterable[Mapping[str, object]]) -> frozenset[str]:
    return frozenset(str(one["name"]) for one in some)


def _more(
    now: Mapping[str, Collection[str]], before: Mapping[str, Collection[str]]
) -> list[tuple[str, str]]:
    return sorted(
        (table, name)
        for table, names in now.items()
        for name in names
        if table in before and name not in before[table]
    )
