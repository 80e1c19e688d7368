# SPDX-License-Identifier: Apache-2.0
"""Comparison of a database with its earlier generations and with acknowledged writes."""

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from sqlalchemy import Table, func, select

from placement_sched.db import tables
from placement_sched.db.transaction import Connection, Database
from placement_sched.store.checks import Violation
from tests.verifier.decisions import read_allocated_amounts
from tests.verifier.model import (
    AcknowledgedWrites,
    Fault,
    FaultsWithValues,
    GenerationsByObject,
    GenerationSnapshot,
    describe_values,
)


def read_generations(database: Database) -> GenerationSnapshot:
    with database.open_snapshot() as connection:
        return GenerationSnapshot(
            _read_generations_of_table(connection, tables.resource_providers),
            _read_generations_of_table(connection, tables.consumers),
        )


def _read_generations_of_table(connection: sa.Connection, table: Table) -> GenerationsByObject:
    columns = (table.c.id, table.c.uuid, table.c.created_at, func.coalesce(table.c.generation, 0))
    rows = connection.execute(select(*columns)).all()
    return {(number, uuid, created): last for number, uuid, created, last in rows}


def find_decreased_generations(
    before: GenerationSnapshot, after: GenerationSnapshot
) -> tuple[Violation, ...]:
    pairs = (
        ("provider", before.providers, after.providers),
        ("consumer", before.consumers, after.consumers),
    )
    return tuple(
        Violation(Fault.DECREASED_GENERATION, f"{noun} {key[1]} from {old} to {new[key]}")
        for noun, earlier, new in pairs
        for key, old in earlier.items()
        if key in new and new[key] < old
    )


@contextmanager
def assert_generations_grow(database: Database) -> Iterator[None]:
    """Fail if the generation of a provider or consumer is lower at the end."""
    before = read_generations(database)
    yield
    decreased = find_decreased_generations(before, read_generations(database))
    assert [violation.detail for violation in decreased] == []


def find_lost_writes(database: Database, writes: AcknowledgedWrites) -> tuple[Violation, ...]:
    with database.open_snapshot() as connection:
        lost = list(_find_lost_amounts(connection, writes))
    return tuple(Violation(fault, describe_values(values)) for fault, values in lost)


def _find_lost_amounts(connection: Connection, writes: AcknowledgedWrites) -> FaultsWithValues:
    held = read_allocated_amounts(connection, sorted(writes.by_consumer))
    for consumer, expected in writes.by_consumer.items():
        holds = held.get(consumer, {})
        if holds not in expected:
            values = {"consumer": consumer, "holds": holds, "expected": expected}
            yield Fault.LOST_ACKNOWLEDGED_WRITE, values
