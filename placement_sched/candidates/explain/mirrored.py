"""Which constraints each provider does not meet, in the mirror, where one serves the request.

The same as ``single_provider`` asks the database in a statement over all providers, and what they
have room for. Here only names are read that are not remembered.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from placement_sched.candidates.explain.memory import NodeNames
from placement_sched.candidates.explain.single_provider import CheckedProviders, RejectedProvider
from placement_sched.candidates.explain.stages import named
from placement_sched.candidates.from_mirror import MirroredProviders
from placement_sched.candidates.mirrored_constraints import Constrained
from placement_sched.candidates.search import Search
from placement_sched.db.sql import rows_among
from placement_sched.db.tables import resource_providers
from placement_sched.mirror.columns import SomeRows
from placement_sched.mirror.shape import CloudShape
from placement_sched.model.placement.provider import Inventory
from placement_sched.store.placement.capacity import InventoryIds, UsedInventory

#: What the mirror has of an inventory, beside its class; the capacity in place of the total.
_STOCK = ("capacity", "used", "min_unit", "max_unit", "step_size")


def first_unmet(
    connection: Connection,
    source: MirroredProviders,
    search: Search,
    serving: Collection[int],
    names: NodeNames,
) -> CheckedProviders:
    """Return the providers that do not meet all constraints, by host and node, with the first.

    Those of the ids in ``serving``, which the search found a moment ago, are not checked.
    """
    with source.mirror.held() as (cloud, shape):
        ids, first = cloud.providers.ids, _first(shape, search, serving)
        number, out = len(cloud), first >= 0
        uuids = cloud.providers.uuids[out].tolist()
        unmet = dict(zip(ids[out].tolist(), zip(first[out].tolist()), strict=True))
    by_id = dict(zip(unmet, uuids, strict=True))
    return CheckedProviders(number, _remembered(connection, names, unmet, by_id))


def first_unmet_uuids(
    source: MirroredProviders, search: Search, serving: Collection[int]
) -> dict[int, list[str]]:
    """Return by its position the uuids of the providers of which a constraint is the first unmet.

    As :func:`first_unmet`, without a look at what they are called.
    """
    with source.mirror.held() as (cloud, shape):
        first, uuids = _first(shape, search, serving), cloud.providers.uuids
        positions = np.unique(first[first >= 0]).tolist()
        return {position: uuids[first == position].tolist() for position in positions}


def all_unmet(
    connection: Connection,
    source: MirroredProviders,
    search: Search,
    names: NodeNames,
    only: Collection[str] | None = None,
) -> CheckedProviders:
    """Return the providers that do not meet all constraints, by host and node, with each unmet.

    With ``only`` just the providers of these uuids are checked.
    """
    with source.mirror.held() as (cloud, shape):
        some: SomeRows = slice(0, len(cloud))
        if only is not None:
            some = np.sort(cloud.rows_of(cloud.ids_of(only).values()))
        met = list(_met(Constrained(shape, search.names), search, some))
        unmet = _positions(cloud.providers.ids[some], met)
        uuids = dict(
            zip(
                cloud.providers.ids[some].tolist(),
                cloud.providers.uuids[some].tolist(),
                strict=True,
            )
        )
        number = len(cloud)
    if only is not None:
        return CheckedProviders(number, _named(connection, unmet))
    return CheckedProviders(number, _remembered(connection, names, unmet, uuids))


def rooms(
    source: MirroredProviders, search: Search, places: Collection[InventoryIds]
) -> dict[InventoryIds, UsedInventory]:
    """Return what is at these places, and perhaps at more of the same providers.

    As the capacity rule has it: of an inventory whose total is all of its capacity.
    """
    found: dict[InventoryIds, UsedInventory] = {}
    numbers = {class_id for _, class_id in places}
    names = search.names.class_names
    with source.mirror.held() as (cloud, _):
        rows = np.sort(cloud.rows_of({provider for provider, _ in places}))
        for class_id in numbers & cloud.classes.keys():
            stock = cloud.classes[class_id].stock
            at, there = stock.places(rows)
            columns = [stock.values[name][at[there]].tolist() for name in _STOCK]
            ids = cloud.providers.ids[rows[there]].tolist()
            for key, whole, used, least, most, step in zip(ids, *columns, strict=True):
                inventory = Inventory(
                    resource_class=names[class_id],
                    total=int(whole),
                    min_unit=least,
                    max_unit=most,
                    step_size=step,
                )
                found[key, class_id] = UsedInventory(inventory, used)
    return found


def nearest_below(
    source: MirroredProviders, class_id: int, roots: Collection[int], asked: int, most: int
) -> dict[int, int]:
    """Return the largest amounts below ``asked`` of a class that providers have room for, by id.

    The ``most`` largest, as ``changes.largest_below`` has each.
    """
    with source.mirror.held() as (cloud, _):
        if class_id not in cloud.classes:
            return {}
        rows = np.sort(cloud.rows_of(roots))
        stock = cloud.classes[class_id].stock
        at, there = stock.places(rows)
        whole, used, least, largest, step = (
            stock.values[name][at[there]].astype(np.int64) for name in _STOCK
        )
        ids = cloud.providers.ids[rows[there]]
    amounts = np.minimum(np.minimum(whole - used, largest), asked - 1)
    amounts -= amounts % np.maximum(step, 1)
    fits = amounts >= np.maximum(least, 1)
    ids, amounts = ids[fits], amounts[fits]
    first = np.lexsort((ids, -amounts))[:most]
    return dict(zip(ids[first].tolist(), amounts[first].tolist(), strict=True))


def _first(shape: CloudShape, search: Search, serving: Collection[int]) -> NDArray[np.int32]:
    """Return for each provider the position of the first constraint that it does not meet.

    It is -1 for one that meets all, and for those that serve.
    """
    number = len(shape.cloud)
    first = np.full(number, -1, np.int32)
    each = _met(Constrained(shape, search.names), search, slice(0, number))
    for position, met in enumerate(each):
        first[(first < 0) & ~met] = position
    first[shape.cloud.rows_of(serving)] = -1
    return first


def _met(asked: Constrained, search: Search, rows: SomeRows) -> Iterator[NDArray[np.bool_]]:
    (group,) = search.query.groups
    return asked.each(group, search.query.root, rows)


def _positions(
    ids: NDArray[np.int64], met: Sequence[NDArray[np.bool_]]
) -> dict[int, tuple[int, ...]]:
    """Return by id the positions of what is not met, of those that do not meet all."""
    if not met:
        return {}
    unmet = ~np.stack(met, axis=1)
    out = np.flatnonzero(unmet.any(axis=1))
    patterns, which = np.unique(unmet[out], axis=0, return_inverse=True)
    positions = [tuple(np.flatnonzero(pattern).tolist()) for pattern in patterns]
    pairs = zip(ids[out].tolist(), which.ravel().tolist(), strict=True)
    return {key: positions[at] for key, at in pairs}


def _remembered(
    connection: Connection,
    names: NodeNames,
    unmet: Mapping[int, tuple[int, ...]],
    uuids: Mapping[int, str],
) -> list[RejectedProvider]:
    """Return the providers with the names that are remembered; others are read."""
    known = names.current(connection)
    called = map(known.get, map(uuids.__getitem__, unmet))
    found = [
        RejectedProvider._make((*name, *one))
        for name, one in zip(called, unmet.items(), strict=True)
        if name is not None
    ]
    if len(found) < len(unmet):
        others = unmet.keys() - {one.id for one in found}
        found += _named(connection, {key: unmet[key] for key in others})
    return sorted(found)


def _named(connection: Connection, unmet: Mapping[int, tuple[int, ...]]) -> list[RejectedProvider]:
    rows = rows_among(connection, named(resource_providers), resource_providers.c.id, unmet)
    return sorted(
        [RejectedProvider(host or "", node or "", key, unmet[key]) for host, node, key in rows]
    )
