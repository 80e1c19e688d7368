"""The statements that read what summaries show: capacities, traits, and what is used."""

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

from sqlalchemy import BigInteger, Connection, Select, String, cast, func, select

from placement_sched.candidates.source import ProviderContents
from placement_sched.db import tables
from placement_sched.db.sql import AT_ONCE, among, batches, uses_ids_again
from placement_sched.model.placement.provider import capacity_of


def read_contents(connection: Connection, ids: Collection[int]) -> ProviderContents:
    """Return what the providers of these ids have, read in three statements."""
    capacities: dict[int, dict[int, int]] = {key: {} for key in ids}
    trait_ids: dict[int, str] = dict.fromkeys(ids, "")
    for batch in batches(ids):
        rows = connection.execute(_inventories_of(connection, batch)).all()
        for key, class_id, total, reserved, ratio in rows:
            capacities[key][class_id] = capacity_of(total, reserved, ratio)
        trait_ids.update(row for row in connection.execute(_traits_of(connection, batch)).all())
    # Selected after the ids, so that each of them has a name.
    used_again = uses_ids_again(connection, tables.resource_providers)
    known = connection.execute(select(tables.traits.c.id, tables.traits.c.name, used_again)).all()
    names = {key: name for key, name, _ in known}
    sets: dict[Hashable, Sequence[str]] = {}
    for joined in set(trait_ids.values()):
        # In the order of their ids, as OpenStack placement usually has them.
        carried = sorted(int(one) for one in joined.split(",") if one)
        sets[joined] = [names[one] for one in carried if one in names]
    return ProviderContents(
        capacities=capacities,
        traits=trait_ids,
        trait_sets=sets,
        ids_recur=any(again for *_, again in known),
    )


def _inventories_of(
    connection: Connection, ids: Sequence[int]
) -> Select[int, int, int, int, float]:
    owned = tables.inventories.c
    key = owned.resource_provider_id
    amounts = (owned.total, owned.reserved, owned.allocation_ratio)
    statement = select(key, owned.resource_class_id, *amounts)
    return statement.where(among(connection, key, ids)).order_by(owned.resource_class_id)


def _traits_of(connection: Connection, ids: Sequence[int]) -> Select[int, str]:
    # The ids of a provider's traits come in one row rather than in forty.
    carried = tables.resource_provider_traits.c
    key = carried.resource_provider_id
    together = func.aggregate_strings(cast(carried.trait_id, String), ",")
    return select(key, together).where(among(connection, key, ids)).group_by(key)


def read_used(
    connection: Connection, classes: Mapping[int, tuple[int, ...]], only: frozenset[int] | None
) -> dict[int, tuple[int, ...]]:
    """Return by provider what is allocated of each of its ``classes``; 0 of others than ``only``.

    One statement, unless there are very many providers.
    """
    summed = _sums(connection, list(classes), only)
    return {key: tuple([summed[one].get(key, 0) for one in some]) for key, some in classes.items()}


def _sums(
    connection: Connection, ids: Sequence[int], classes: Iterable[int] | None
) -> Mapping[int, Mapping[int, int]]:
    held = tables.allocations.c
    key = (held.resource_provider_id, held.resource_class_id)
    # MariaDB sums to a decimal; and several allocations may be more than a column of one holds.
    summed = func.sum(held.used).cast(BigInteger)
    statement = select(*key, summed).group_by(*key)
    if classes is not None:
        statement = statement.where(held.resource_class_id.in_(sorted(classes)))
    found: dict[int, dict[int, int]] = defaultdict(dict)
    for batch in batches(ids):
        some = connection.execute(statement.where(among(connection, key[0], batch)))
        for rows in some.partitions(AT_ONCE):
            for provider, class_id, used in rows:
                found[class_id][provider] = used
    return found
