# SPDX-License-Identifier: Apache-2.0
"""Instances in the database of a cell."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Connection, Table, and_, func, or_, select

from placement_sched.db import sql
from placement_sched.model.document import Json, to_storable
from placement_sched.model.instance import CELL0, InstanceMetadata
from placement_sched.nova.databases.tables import (
    cell_mappings,
    instance_extra,
    instance_mappings,
    instance_metadata,
    instance_system_metadata,
    instances,
)
from placement_sched.store.compute.flavors import digest_of_flavor
from placement_sched.store.compute.instances import serialize_metadata

_COLUMNS = instances.c


class NovaInstance(NamedTuple):
    """An instance in the database of a cell.

    ``flavor`` is the digest of the embedded flavor (:func:`placement_sched.db.sql.digest`), or None
    if the flavor was not read or does not exist. The metadata are JSON, or None if there are none
    or they were not read. Times are ISO 8601 strings.
    """

    uuid: str
    host: str | None
    node: str | None
    project_id: str | None
    user_id: str | None
    display_name: str | None
    vm_state: str | None
    task_state: str | None
    image_ref: str | None
    instance_type_id: int | None
    deleted: int
    hidden: bool | int | None
    created_at: str | None
    updated_at: str | None
    launched_at: str | None
    vcpus: int | None
    memory_mb: int | None
    root_gb: int | None
    ephemeral_gb: int | None
    flavor: str | None = None
    metadata: str | None = None
    system_metadata: str | None = None

    @property
    def lives(self) -> bool:
        """Return whether the instance is neither deleted nor hidden in its cell."""
        return not self.deleted and not self.hidden


_OTHER_TABLES = {"flavor", *InstanceMetadata._fields}
_PLAIN = tuple(_COLUMNS[name] for name in NovaInstance._fields if name not in _OTHER_TABLES)
_SIZES = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb")
#: All columns that can change, without the flavor: nova changes it together with
#: ``instance_type_id``, and writes it first.
_CHANGING = (
    *(_COLUMNS.updated_at, _COLUMNS.deleted, _COLUMNS.hidden, _COLUMNS.host, _COLUMNS.node),
    *(_COLUMNS.vm_state, _COLUMNS.task_state, _COLUMNS.display_name, _COLUMNS.image_ref),
    *(_COLUMNS.instance_type_id, _COLUMNS.launched_at, *(_COLUMNS[name] for name in _SIZES)),
)
# During a move between cells there are two copies, and the hidden copy does not count.
_LIVING = and_(_COLUMNS.deleted == 0, or_(_COLUMNS.hidden.is_(None), _COLUMNS.hidden.is_(False)))
#: The fields of a serialised flavor that are recorded.
_FLAVOR_FIELDS = (
    *("id", "name", "flavorid", "vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap"),
    *("rxtx_factor", "vcpu_weight", "disabled", "is_public", "description", "extra_specs"),
)
#: Maximum number of rows that are aggregated into one JSON text.
_ROWS_PER_TEXT = 1000
_TEXT_GROUP = _COLUMNS.id // _ROWS_PER_TEXT
#: Maximum number of cached flavors, each by nova's digest and by the digest of its record.
_MAX_CACHED_FLAVORS = 20_000


def count(connection: Connection) -> int:
    """Return the number of living instances in the cell."""
    query = select(func.count()).select_from(instances).where(_COLUMNS.deleted == 0)
    return int(connection.scalars(query).one())


def between(connection: Connection, first: str, last: str | None) -> list[NovaInstance]:
    """Return the living instances with ``first`` <= uuid < ``last``."""
    flavor = sql.digest(connection, instance_extra.c.flavor)
    whole = instances.outerjoin(instance_extra, instance_extra.c.instance_uuid == _COLUMNS.uuid)
    query = select(sql.json_rows(connection, (*_PLAIN, flavor))).select_from(whole)
    query = query.where(_LIVING, _COLUMNS.uuid >= first)
    query = query if last is None else query.where(_COLUMNS.uuid < last)
    texts = connection.scalars(query.group_by(_TEXT_GROUP))
    return [NovaInstance(*row) for row in sql.values_of(texts)]


def by_uuids(connection: Connection, uuids: Collection[str]) -> list[NovaInstance]:
    """Return the existing instances among ``uuids``, even if deleted, without flavors."""
    query = select(sql.json_rows(connection, _PLAIN)).having(func.count() > 0)
    rows: list[NovaInstance] = []
    for batch in sql.batches(uuids, _ROWS_PER_TEXT):
        texts = connection.scalars(query.where(sql.in_values(connection, _COLUMNS.uuid, batch)))
        rows += [NovaInstance(*row) for row in sql.values_of(texts)]
    return rows


def with_flavors(connection: Connection, rows: Sequence[NovaInstance]) -> list[NovaInstance]:
    """Add the digests of flavors to instances.

    Flavors are larger than the other data of instances.
    """
    extra = instance_extra.c
    query = select(extra.instance_uuid, sql.digest(connection, extra.flavor))
    uuids = [instance.uuid for instance in rows]
    flavors = dict(map(tuple, sql.select_in_batches(connection, query, extra.instance_uuid, uuids)))
    return [instance._replace(flavor=flavors.get(instance.uuid)) for instance in rows]


def with_metadata(connection: Connection, rows: Sequence[NovaInstance]) -> list[NovaInstance]:
    """Add the metadata of living instances, with a query for each of the two tables."""
    uuids = [instance.uuid for instance in rows if instance.lives]
    by_user = _read_metadata(connection, instance_metadata, uuids)
    by_nova = _read_metadata(connection, instance_system_metadata, uuids)
    return [
        instance._replace(
            metadata=by_user.get(instance.uuid), system_metadata=by_nova.get(instance.uuid)
        )
        for instance in rows
    ]


def _read_metadata(
    connection: Connection, table: Table, uuids: Collection[str]
) -> dict[str, str | None]:
    columns = table.c
    pairs = sql.json_rows(connection, (columns.key, columns.value))
    query = select(columns.instance_uuid, pairs).where(columns.deleted == 0)
    query = query.group_by(columns.instance_uuid)
    rows = sql.select_in_batches(connection, query, columns.instance_uuid, uuids)
    return {uuid: _serialize_pairs(list(sql.values_of([text]))) for uuid, text in rows}


def _serialize_pairs(pairs: Sequence[list[Any]]) -> str | None:
    metadata = dict(pairs)
    if len(metadata) < len(pairs):  # a race in nova wrote a key twice: always use the same value
        metadata = dict(sorted(pairs, key=lambda pair: (pair[0], pair[1] or "")))
    return serialize_metadata(metadata)


def changed_instances(connection: Connection, since: datetime) -> dict[str, tuple[Any, ...]]:
    """Map the uuids of instances written since a time to their changing columns.

    Deleted instances are included: nova updates an instance shortly before it deletes it.
    """
    changed = select(sql.json_rows(connection, (_COLUMNS.uuid, *_CHANGING))).group_by(_TEXT_GROUP)
    changed_texts = connection.scalars(changed.where(_COLUMNS.updated_at >= since)).all()
    new = changed.where(_COLUMNS.deleted == 0, _COLUMNS.created_at >= since)
    rows = sql.values_of((*changed_texts, *connection.scalars(new)))
    return {row[0]: tuple(row[1:]) for row in rows}


def unplaceable(connection: Connection, uuids: Collection[str]) -> frozenset[str]:
    """Return the instances that never get a host: deleted, or mapped to cell0."""
    columns = instance_mappings.c
    query = select(columns.instance_uuid).outerjoin(
        cell_mappings, cell_mappings.c.id == columns.cell_id
    )
    query = query.where(or_(cell_mappings.c.uuid == CELL0, columns.queued_for_delete.is_(True)))
    return frozenset(sql.scalars_in_batches(connection, query, columns.instance_uuid, uuids))


def mapped_to(connection: Connection, uuids: Collection[str]) -> dict[str, str]:
    """Map the uuids of instances to the uuid of the cell that nova maps them to."""
    columns = instance_mappings.c
    query = select(columns.instance_uuid, cell_mappings.c.uuid)
    query = query.join(cell_mappings, cell_mappings.c.id == columns.cell_id)
    return dict(map(tuple, sql.select_in_batches(connection, query, columns.instance_uuid, uuids)))


class RecordedFlavor(NamedTuple):
    """A flavor as instances record it: its JSON, flavor id and number.

    ``digest`` is the digest of the JSON (:mod:`placement_sched.store.compute.flavors`).
    """

    text: str
    digest: str
    flavorid: str | None
    number: int | None


class Flavors:
    """Cache of the flavors in instances.

    Most instances share their flavor with others. A flavor is cached by the digest of nova's JSON,
    and by the digest of the recorded JSON.
    """

    def __init__(self) -> None:
        self._cached: dict[str, RecordedFlavor | None] = {}

    def read(self, connection: Connection, rows: Iterable[NovaInstance]) -> None:
        """Read the flavors of instances that are not cached yet."""
        new = {
            instance.uuid: instance.flavor
            for instance in {row.flavor: row for row in rows if row.flavor}.values()
            if instance.flavor not in self._cached
        }
        query = select(instance_extra.c.instance_uuid, instance_extra.c.flavor)
        for uuid, text in sql.select_in_batches(
            connection, query, instance_extra.c.instance_uuid, new
        ):
            flavor = _parse_flavor(text or "")
            self._cached[new[uuid] or ""] = None if flavor is None else _embedded_flavor(flavor)

    def of(self, instance: NovaInstance) -> RecordedFlavor:
        """Return an instance's embedded flavor, or a flavor made of the instance's sizes."""
        flavor = self._cached.get(instance.flavor) if instance.flavor else None
        if flavor is None:
            sizes = {name: getattr(instance, name) or 0 for name in _SIZES}
            flavor = _embedded_flavor({**sizes, "swap": 0, "extra_specs": {}})
        self._cached[flavor.digest] = flavor
        return flavor

    def recorded(self, instance: NovaInstance, digest: str | None) -> RecordedFlavor | None:
        """Return the flavor with a recorded digest if the instance still has this flavor."""
        flavor, number = self._cached.get(digest or ""), instance.instance_type_id
        return flavor if flavor and number is not None and flavor.number == number else None

    def limit_size(self) -> None:
        """Clear the cache if it is full.

        Flavors that were read before must be read again.
        """
        if len(self._cached) >= _MAX_CACHED_FLAVORS:
            self._cached.clear()


def _embedded_flavor(flavor: Json) -> RecordedFlavor:
    text = to_storable(flavor)
    return RecordedFlavor(text, digest_of_flavor(text), flavor.get("flavorid"), flavor.get("id"))


def _parse_flavor(text: str) -> Json | None:
    """Parse the JSON of ``instance_extra``, or return None if it is malformed."""
    try:
        data = orjson.loads(text)["cur"]["nova_object.data"]
        flavor = {name: data[name] for name in _FLAVOR_FIELDS if name in data}
        flavor["extra_specs"] = dict(flavor.get("extra_specs") or {})
    except (ValueError, KeyError, TypeError):
        return None
    return flavor


def ranges(count: int) -> Iterable[tuple[str, str | None]]:
    """Divide all uuids evenly into ``count`` ranges, each with a start and an end."""
    count = min(max(count, 1), 4096)
    # The first eight digits contain no hyphen, which collations sort differently.
    bounds = [f"{16**8 * index // count:08x}" for index in range(count)]
    return [(start, end) for start, end in zip(bounds, [*bounds[1:], None], strict=True)]
