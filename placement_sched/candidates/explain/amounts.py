"""The amounts of a class that trees would have room for, where they lack room for what is asked."""

from collections.abc import Collection, Mapping

from sqlalchemy import Connection, select

from placement_sched.candidates.explain.changes import largest_below, smallest_above
from placement_sched.candidates.explain.stages import checked_trees
from placement_sched.candidates.search import Search
from placement_sched.db.sql import among, batches
from placement_sched.db.tables import resource_providers
from placement_sched.store.placement import capacity
from placement_sched.store.placement.capacity import UsedInventory


def uuids_of(connection: Connection, ids: Collection[int]) -> dict[int, str]:
    """Return the uuids of the providers of these ids."""
    columns = resource_providers.c
    query = select(columns.id, columns.uuid)
    return {
        key: uuid
        for batch in batches(ids)
        for key, uuid in connection.execute(query.where(among(connection, columns.id, batch)))
    }


def nearest_amounts(
    connection: Connection, search: Search, roots: Collection[int], name: str, asked: int
) -> dict[int, int]:
    """Return by root the amount nearest to ``asked`` for which a provider of its tree has room.

    The largest below it, else the smallest above it; roots of trees without are left out. A tree
    may still not serve the request with it, for want of another constraint.
    """
    providers = _providers(connection, search, roots)
    class_id = search.names.classes[name]
    every = {one for some in providers.values() for one in some}
    rooms = capacity.read(connection, [(one, class_id) for one in every])
    found = {}
    for root, some in providers.items():
        having = [room for one in some if (room := rooms.get((one, class_id)))]
        if nearest := _nearest(having, asked):
            found[root] = nearest
    return found


def _providers(
    connection: Connection, search: Search, roots: Collection[int]
) -> Mapping[int, Collection[int]]:
    if search.is_single:
        return {root: (root,) for root in roots}
    trees = checked_trees(connection, search, sorted(roots))
    return {tree.root.id: [one.id for one in tree.slots[0]] for tree in trees if tree.slots}


def _nearest(rooms: Collection[UsedInventory], asked: int) -> int:
    below = max((largest_below(room, asked) for room in rooms), default=0)
    above = [found for room in rooms if (found := smallest_above(room, asked))]
    return below or min(above, default=0)
