"""Ids of what a claim names, of every kind at once."""

from collections.abc import Collection, Mapping
from itertools import zip_longest
from typing import Any

from sqlalchemy import Column, Connection, bindparam, literal, select, union_all

from placement_sched.db.batches import SIZE, batches
from placement_sched.db.tables import consumer_types, projects, resource_providers, users

PROJECT, USER, CONSUMER_TYPE, PROVIDER = "project", "user", "consumer_type", "provider"

COLUMNS: Mapping[str, Column[Any]] = {
    PROJECT: projects.c.external_id,
    USER: users.c.external_id,
    CONSUMER_TYPE: consumer_types.c.name,
    PROVIDER: resource_providers.c.uuid,
}

_QUESTION = union_all(
    *(
        select(literal(kind), column, column.table.c.id).where(
            column.in_(bindparam(kind, expanding=True))
        )
        for kind, column in COLUMNS.items()
    )
)

#: An id by kind and name.
Ids = dict[tuple[str, str], int]


def ids(connection: Connection, wanted: Mapping[str, Collection[str]]) -> Ids:
    """Return the ids of those rows that are there, by kind and name, with one statement.

    ``wanted`` has names by kind. One more statement is for some thousands of names more.
    """
    parts = [batches(wanted.get(kind, ()), SIZE // len(COLUMNS)) for kind in COLUMNS]
    return {
        (kind, name): number
        for some in zip_longest(*parts, fillvalue=())
        for kind, name, number in connection.execute(
            _QUESTION, dict(zip(COLUMNS, some, strict=True))
        )
    }


def as_kept(connection: Connection, kind: str, name: str) -> str | None:
    """Return the name that the database takes for this one, as it is kept there."""
    column = COLUMNS[kind]
    kept: str | None = connection.scalar(select(column).where(column == name))
    return kept
