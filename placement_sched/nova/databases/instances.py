"""The instances of a cell: all of one range of uuids, some, or what moved lately."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Connection, and_, func, or_, select

from placement_sched.db import sql
from placement_sched.model.document import Json, storable
from placement_sched.model.instance import CELL0
from placement_sched.nova.databases.tables import (
    cell_mappings,
    instance_extra,
    instance_mappings,
    instances,
)
from placement_sched.store.compute.flavors import digest_of_flavor

_COLUMNS = instances.c


class NovaInstance(NamedTuple):
    """An instance as a cell has it.

    ``flavor`` is the digest of the text that was kept with it
    (:func:`placement_sched.db.sql.digest`), or None where that was not read or is not there; times
    are texts of ISO 8601.
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
    vcpus: int | None
    memory_mb: int | None
    root_gb: int | None
    ephemeral_gb: int | None
    flavor: str | None = None

    @property
    def lives(self) -> bool:
        """Return whether it lives in the cell that has it."""
        return not self.deleted and not self.hidden


_PLAIN = tuple(_COLUMNS[name] for name in NovaInstance._fields if name != "flavor")
_SIZES = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb")
#: All that is read but what never changes and the flavor's text: nova changes that together with
#: ``instance_type_id``, and writes it before.
_MOVING = (
    *(_COLUMNS.updated_at, _COLUMNS.deleted, _COLUMNS.hidden, _COLUMNS.host, _COLUMNS.node),
    *(_COLUMNS.vm_state, _COLUMNS.task_state, _COLUMNS.display_name, _COLUMNS.image_ref),
    *(_COLUMNS.instance_type_id, *(_COLUMNS[name] for name in _SIZES)),
)
# A copy that is hidden is the one of two, during a move between cells, that does not count.
_LIVING = and_(_COLUMNS.deleted == 0, or_(_COLUMNS.hidden.is_(None), _COLUMNS.hidden.is_(False)))
#: What of a flavor's serialised object is kept.
_FLAVOR = (
    *("id", "name", "flavorid", "vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap"),
    *("rxtx_factor", "vcpu_weight", "disabled", "is_public", "description", "extra_specs"),
)
#: So many rows at most are joined together to be sent.
_TOGETHER = 1000
_SOME = _COLUMNS.id // _TOGETHER
#: So many texts of flavors are remembered with what they say.
_MOST_TEXTS = 10_000


def count(connection: Connection) -> int:
    """Return how many instances live in the cell."""
    query = select(func.count()).select_from(instances).where(_COLUMNS.deleted == 0)
    return int(connection.scalars(query).one())


def between(connection: Connection, first: str, last: str | None) -> list[NovaInstance]:
    """Return the instances that live whose uuid is from ``first`` up to, but not, ``last``."""
    flavor = sql.digest(connection, instance_extra.c.flavor)
    whole = instances.outerjoin(instance_extra, instance_extra.c.instance_uuid == _COLUMNS.uuid)
    query = select(sql.json_rows(connection, (*_PLAIN, flavor))).select_from(whole)
    query = query.where(_LIVING, _COLUMNS.uuid >= first)
    query = query if last is None else query.where(_COLUMNS.uuid < last)
    texts = connection.scalars(query.group_by(_SOME))
    return [NovaInstance(*row) for row in sql.values_of(texts)]


def by_uuids(connection: Connection, uuids: Collection[str]) -> list[NovaInstance]:
    """Return those of the instances that the cell has, living or not, without their flavors."""
    query = select(sql.json_rows(connection, _PLAIN)).having(func.count() > 0)
    found: list[NovaInstance] = []
    for some in sql.batches(uuids, _TOGETHER):
        texts = connection.scalars(query.where(sql.among(connection, _COLUMNS.uuid, some)))
        found += [NovaInstance(*row) for row in sql.values_of(texts)]
    return found


def with_flavors(connection: Connection, found: Sequence[NovaInstance]) -> list[NovaInstance]:
    """Return the instances with their flavors, whose texts are longer than all else of them."""
    extra = instance_extra.c
    query = select(extra.instance_uuid, sql.digest(connection, extra.flavor))
    uuids = [one.uuid for one in found]
    flavors = dict(map(tuple, sql.rows_among(connection, query, extra.instance_uuid, uuids)))
    return [one._replace(flavor=flavors.get(one.uuid)) for one in found]


def moved(connection: Connection, since: datetime) -> dict[str, tuple[Any, ...]]:
    """Return by uuid what moves of the instances written or made since then.

    Those that were deleted are among them: what deletes an instance writes it shortly before.
    """
    moving = select(sql.json_rows(connection, (_COLUMNS.uuid, *_MOVING))).group_by(_SOME)
    written = connection.scalars(moving.where(_COLUMNS.updated_at >= since)).all()
    new = moving.where(_COLUMNS.deleted == 0, _COLUMNS.created_at >= since)
    rows = sql.values_of((*written, *connection.scalars(new)))
    return {row[0]: tuple(row[1:]) for row in rows}


def given_up(connection: Connection, uuids: Collection[str]) -> frozenset[str]:
    """Return those that nova's API maps to cell0, or has deleted: they will be on no host."""
    columns = instance_mappings.c
    query = select(columns.instance_uuid).outerjoin(
        cell_mappings, cell_mappings.c.id == columns.cell_id
    )
    query = query.where(or_(cell_mappings.c.uuid == CELL0, columns.queued_for_delete.is_(True)))
    rows = sql.rows_among(connection, query, columns.instance_uuid, uuids)
    return frozenset(row[0] for row in rows)


def mapped_to(connection: Connection, uuids: Collection[str]) -> dict[str, str]:
    """Return the uuid of the cell that nova's API maps each of the instances to, by instance."""
    columns = instance_mappings.c
    query = select(columns.instance_uuid, cell_mappings.c.uuid)
    query = query.join(cell_mappings, cell_mappings.c.id == columns.cell_id)
    return dict(map(tuple, sql.rows_among(connection, query, columns.instance_uuid, uuids)))


class KeptFlavor(NamedTuple):
    """A flavor as it is kept with an instance: its JSON, and the ids for people and databases.

    ``digest`` is that of the JSON (:mod:`placement_sched.store.compute.flavors`).
    """

    text: str
    digest: str
    flavorid: str | None
    number: int | None


class Flavors:
    """Flavors as instances have them, each text read once; most instances share a few."""

    def __init__(self) -> None:
        self._known: dict[str, KeptFlavor | None] = {}

    def learn(self, connection: Connection, found: Iterable[NovaInstance]) -> None:
        """Read the texts of the flavors of these instances that are not known yet."""
        if len(self._known) >= _MOST_TEXTS:
            self._known.clear()
        new = {
            one.uuid: one.flavor
            for one in {each.flavor: each for each in found if each.flavor}.values()
            if one.flavor not in self._known
        }
        query = select(instance_extra.c.instance_uuid, instance_extra.c.flavor)
        for uuid, text in sql.rows_among(connection, query, instance_extra.c.instance_uuid, new):
            flavor = _flavor(text or "")
            self._known[new[uuid] or ""] = None if flavor is None else _kept(flavor)

    def of(self, instance: NovaInstance) -> KeptFlavor:
        """Return the flavor of an instance: that which was kept with it, else the sizes it has."""
        found = self._known.get(instance.flavor) if instance.flavor else None
        if found is not None:
            return found
        sizes = {name: getattr(instance, name) or 0 for name in _SIZES}
        return _kept({**sizes, "swap": 0, "extra_specs": {}})


def _kept(flavor: Json) -> KeptFlavor:
    text = storable(flavor)
    return KeptFlavor(text, digest_of_flavor(text), flavor.get("flavorid"), flavor.get("id"))


def _flavor(text: str) -> Json | None:
    """Return the flavor that ``instance_extra`` holds as JSON, or None where it cannot be read."""
    try:
        data = orjson.loads(text)["cur"]["nova_object.data"]
        flavor = {name: data[name] for name in _FLAVOR if name in data}
        flavor["extra_specs"] = dict(flavor.get("extra_specs") or {})
    except (ValueError, KeyError, TypeError):
        return None
    return flavor


def ranges(number: int) -> Iterable[tuple[str, str | None]]:
    """Return so many ranges that share out all uuids evenly, each by its first and its last."""
    number = min(max(number, 1), 4096)
    # Within the first eight digits, no order that a database gives texts puts a hyphen before one.
    bounds = [f"{16**8 * each // number:08x}" for each in range(number)]
    return [(first, after) for first, after in zip(bounds, [*bounds[1:], None], strict=True)]
