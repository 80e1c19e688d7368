"""The amounts of a class that trees would have room for, where they lack room for what is asked."""

from collections.abc import Collection, Mapping

from sqlalchemy import BigInteger, Connection, and_, case, cast, select

from placement_sched.candidates.explain import mirrored
from placement_sched.candidates.explain.changes import largest_below, smallest_above
from placement_sched.candidates.explain.stages import checked_trees
from placement_sched.candidates.explain.trees import SearchRun
from placement_sched.candidates.from_mirror import MirroredProviders
from placement_sched.candidates.search import Search
from placement_sched.db.sql import among, batches
from placement_sched.db.tables import inventories, resource_providers
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
    run: SearchRun, roots: Collection[int], asked: tuple[str, int], most: int
) -> dict[int, int]:
    """Return by root the amount nearest to the one asked of a class for which its tree has room.

    The largest below it, or, where no tree has any, the smallest above it; of the ``most`` trees
    that are nearest. A tree may still not serve with it, for want of another constraint.
    """
    connection, search, (name, amount) = run.connection, run.search, asked
    class_id = search.names.classes[name]
    if search.is_single and (found := _largest(run, class_id, roots, amount, most)):
        return found
    providers = _providers(connection, search, roots)
    every = {one for some in providers.values() for one in some}
    rooms = capacity.read(connection, [(one, class_id) for one in every])
    having = {
        root: [room for one in some if (room := rooms.get((one, class_id)))]
        for root, some in providers.items()
    }
    below = {root: _best_below(some, amount) for root, some in having.items()}
    nearest = {root: found for root, found in below.items() if found}
    if not nearest:
        above = {root: _best_above(some, amount) for root, some in having.items()}
        nearest = {root: found for root, found in above.items() if found}
    ordered = sorted(nearest, key=lambda root: (abs(amount - nearest[root]), root))
    return {root: nearest[root] for root in ordered[:most]}


def _largest(
    run: SearchRun, class_id: int, roots: Collection[int], asked: int, most: int
) -> dict[int, int]:
    """Return the same of the largest amounts below, as :func:`largest_below` has it: all at once.

    In the mirror, or in SQL.
    """
    connection = run.connection
    if isinstance(run.source, MirroredProviders):
        return mirrored.nearest_below(run.source, class_id, roots, asked, most)
    owned = inventories.c
    free = capacity.whole_capacity(connection, inventories) - capacity.used_of(
        owned.resource_provider_id, owned.resource_class_id
    )
    rooms = (
        select(
            owned.resource_provider_id.label("root"),
            free.label("free"),
            owned.min_unit,
            owned.max_unit,
            owned.step_size,
        )
        .where(owned.resource_class_id == class_id)
        .where(among(connection, owned.resource_provider_id, roots))
        .subquery()
        .c
    )
    bound = case((rooms.max_unit < asked, rooms.max_unit), else_=asked - 1)
    whole = cast(case((rooms.free < bound, rooms.free), else_=bound), BigInteger)
    largest = whole - whole % rooms.step_size
    fits = and_(largest >= 1, largest >= rooms.min_unit)
    query = select(rooms.root, largest).where(fits).order_by(largest.desc(), rooms.root)
    return {root: int(amount) for root, amount in connection.execute(query.limit(most))}


def _providers(
    connection: Connection, search: Search, roots: Collection[int]
) -> Mapping[int, Collection[int]]:
    if search.is_single:
        return {root: (root,) for root in roots}
    trees = checked_trees(connection, search, sorted(roots))
    return {tree.root.id: [one.id for one in tree.slots[0]] for tree in trees if tree.slots}


def _best_below(rooms: Collection[UsedInventory], asked: int) -> int:
    return max((largest_below(room, asked) for room in rooms), default=0)


def _best_above(rooms: Collection[UsedInventory], asked: int) -> int:
    return min((found for room in rooms if (found := smallest_above(room, asked))), default=0)
