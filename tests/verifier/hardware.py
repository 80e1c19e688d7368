# SPDX-License-Identifier: Apache-2.0
"""Recorded instances that request pinned CPUs or PCI devices, and their compute nodes."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, select
from sqlalchemy.exc import DataError

from placement_sched.db import sql
from placement_sched.db.tables import compute_nodes, embedded_flavors, instances
from placement_sched.errors import Invalid, one_line
from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.instance import Instance
from placement_sched.store.compute import compute_nodes as nodes_store
from placement_sched.store.compute import instances as instances_store

_INSTANCES, _NODES = instances.c, compute_nodes.c
#: Matches the flavor or the image of an instance with pinned CPUs.
_PINNING = ("%cpu_policy%", "%PCPU%")
DEVICES = "pci_passthrough:alias"
_DEVICES = (f"%{DEVICES}%",)


T = TypeVar("T")

#: Exceptions that a document of another form raises when it is read.
MALFORMED = (
    Invalid,
    ArithmeticError,
    AttributeError,
    DataError,  # a time of PostgreSQL that Python does not have
    LookupError,
    TypeError,
    ValueError,
)


class UnreadableRecord(NamedTuple):
    """A record that cannot be read, and why."""

    uuid: str
    reason: str


def instances_with_hardware(
    connection: Connection,
) -> tuple[list[Instance], list[UnreadableRecord]]:
    digests = select(embedded_flavors.c.digest).where(
        _contains_any(embedded_flavors.c.flavor, *_PINNING, *_DEVICES)
    )
    requests_hardware = sa.or_(
        _contains_any(_INSTANCES.flavor, *_PINNING, *_DEVICES),
        _contains_any(_INSTANCES.image, *_PINNING),
        _INSTANCES.flavor_digest.in_(digests),
    )
    query = select(_INSTANCES.uuid).where(_INSTANCES.host.is_not(None), requests_hardware)
    query = query.order_by(_INSTANCES.id)
    uuids = connection.scalars(query).all()
    return _read_in_batches(uuids, lambda batch: instances_store.by_uuids(connection, batch))


def nodes_of(
    connection: Connection, uuids: Iterable[str]
) -> tuple[list[ComputeNode], list[UnreadableRecord]]:
    return _read_in_batches(sorted(uuids), lambda batch: nodes_store.by_uuids(connection, batch))


def _read_in_batches(
    uuids: Sequence[str], read: Callable[[Sequence[str]], Iterable[T]]
) -> tuple[list[T], list[UnreadableRecord]]:
    records, unreadable = list[T](), list[UnreadableRecord]()
    for batch in sql.batches(uuids, sql.AT_ONCE):
        try:
            records += read(batch)
            continue
        except MALFORMED:
            pass
        for uuid in batch:
            try:
                records += read([uuid])
            except MALFORMED as failure:
                unreadable.append(UnreadableRecord(uuid, unreadable_reason(failure)))
    return records, unreadable


def unreadable_reason(failure: Exception) -> str:
    return f"{type(failure).__name__}: {one_line(failure)}"


def _contains_any(column: ColumnElement[str], *words: str) -> ColumnElement[bool]:
    return sa.or_(*(column.like(word) for word in words))
