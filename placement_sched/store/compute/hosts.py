"""Hosts with all that is known of each: services, sums over provider trees, whole trees.

Questions about the whole cloud are a fixed number of statements, whatever its size; what a tree has
in many rows the database joins to one text.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import orjson
import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, exists, func, select

from placement_sched.db import sql, tables
from placement_sched.db.collations import is_same_uuid
from placement_sched.db.tables import (
    allocations,
    compute_nodes,
    inventories,
    resource_provider_traits,
    resource_providers,
    services,
    traits,
)
from placement_sched.model.compute_node import COMPUTE_BINARY
from placement_sched.model.provider import Inventory, Provider
from placement_sched.store.compute.services import enabled_nodes
from placement_sched.store.placement import aggregates, resource_classes
from placement_sched.store.placement import inventories as stock
from placement_sched.store.placement import resource_providers as providers
from placement_sched.store.placement import traits as placement_traits
from placement_sched.store.placement.capacity import used_of, whole_capacity

_NODES, _SERVICES, _PROVIDERS = compute_nodes.c, services.c, resource_providers.c
_CARRIED = resource_provider_traits.c
#: A provider from before there were trees has no root: it is its own.
_ROOT = func.coalesce(_PROVIDERS.root_provider_id, _PROVIDERS.id)

#: The ids of the root providers that a question is about; None: every one there is.
Roots = Collection[int] | None
#: Capacity and what is used of it, by resource class.
TreeAmounts = Mapping[str, tuple[int, int]]


class ServedNode(NamedTuple):
    """A compute node with the compute service of its host, and the id of its root provider.

    Where the host has no compute service, it is as one that was never seen up.
    """

    host: str
    node: str
    uuid: str
    cell_uuid: str | None
    root_id: int | None
    disabled: bool
    disabled_reason: str | None
    forced_down: bool
    last_seen_up: datetime | None


@dataclass(frozen=True, slots=True)
class ProviderInTree:
    """A provider of a tree with all it has; ``used`` is by resource class."""

    provider: Provider
    inventories: tuple[Inventory, ...]
    used: Mapping[str, int]
    traits: tuple[str, ...]
    aggregates: tuple[str, ...]


def served_nodes(connection: Connection, *, host: str | None = None) -> list[ServedNode]:
    """Return all compute nodes, or those of a host, by host, then by name."""
    theirs = and_(_SERVICES.host == _NODES.host, _SERVICES.binary == COMPUTE_BINARY)
    query = (
        select(
            _NODES.host,
            _NODES.hypervisor_hostname,
            _NODES.uuid,
            _NODES.cell_uuid,
            _PROVIDERS.id,
            func.coalesce(_SERVICES.disabled, 0),
            _SERVICES.disabled_reason,
            func.coalesce(_SERVICES.forced_down, 0),
            _SERVICES.last_seen_up,
        )
        .select_from(compute_nodes)
        .outerjoin(services, theirs)
        .outerjoin(resource_providers, is_same_uuid(_PROVIDERS.uuid, _NODES.uuid))
    )
    if host is not None:
        query = query.where(_NODES.host == host)
    # Sorted here: databases differ in what they take for the order of two names.
    return sorted(map(ServedNode._make, connection.execute(query)), key=lambda one: one[:2])


def roots_with_trait(connection: Connection, name: str) -> frozenset[int]:
    """Return the ids of the roots of all trees of which a provider has this trait."""
    query = (
        select(_ROOT, traits.c.name)
        .join(resource_provider_traits, _CARRIED.resource_provider_id == _PROVIDERS.id)
        .join(traits, traits.c.id == _CARRIED.trait_id)
        .where(traits.c.name == name)
    )
    # MariaDB compares names without regard to case.
    return frozenset(root for root, found in connection.execute(query) if found == name)


def amounts(connection: Connection, roots: Roots) -> dict[int, TreeAmounts]:
    """Return the sums over each tree, by the id of its root; two statements."""
    owned = inventories.c
    used = used_of(owned.resource_provider_id, owned.resource_class_id)
    each = _among(
        connection,
        select(
            _ROOT.label("root"),
            owned.resource_class_id.label("class_id"),
            _whole(func.sum(whole_capacity(connection, inventories))).label("capacity"),
            _whole(func.sum(used)).label("used"),
        )
        .join(resource_providers, _PROVIDERS.id == owned.resource_provider_id)
        .group_by(_ROOT, owned.resource_class_id),
        roots,
    ).subquery()
    columns = (each.c.class_id, each.c.capacity, each.c.used)
    query = select(each.c.root, sql.json_rows(connection, columns)).group_by(each.c.root)
    names = resource_classes.all_by_id(connection)
    return {
        root: {
            names[key]: (capacity, taken)
            for key, capacity, taken in sorted(sql.values_of([text]))
            if key in names
        }
        for root, text in connection.execute(query).all()
    }


def trait_names(connection: Connection) -> dict[int, str]:
    """Return the name of every trait by its id."""
    return dict(map(tuple, connection.execute(select(traits.c.id, traits.c.name))))


def traits_of_trees(connection: Connection, roots: Roots) -> dict[int, Sequence[int]]:
    """Return the ids of the traits of each tree by the id of its root, each once.

    Trees of the same traits share one sequence.
    """
    ids = func.aggregate_strings(sa.cast(_CARRIED.trait_id, sa.String), ",")
    carried = select(_CARRIED.resource_provider_id, ids)
    if roots is not None:
        within = _among(connection, select(_PROVIDERS.id), roots)
        carried = carried.where(_CARRIED.resource_provider_id.in_(within))
    # By provider first, in the order of the index: to sort what whole trees have takes longer.
    each = carried.group_by(_CARRIED.resource_provider_id).subquery()
    provider, texts = each.c
    query = (
        select(_ROOT, func.aggregate_strings(texts, ","))
        .join(each, provider == _PROVIDERS.id)
        .group_by(_ROOT)
    )
    known: dict[str, Sequence[int]] = {}
    found = {}
    for root, text in connection.execute(query).all():
        if text not in known:
            listed = orjson.loads(f"[{text}]")
            unique = set(listed)
            known[text] = listed if len(unique) == len(listed) else sorted(unique)
        found[root] = known[text]
    return found


def trees(
    connection: Connection, root_ids: Collection[int]
) -> dict[int, tuple[ProviderInTree, ...]]:
    """Return all providers of some trees by the id of the root, in the order of their ids."""
    rows = sql.rows_among(connection, providers.PROVIDERS, _ROOT, sorted(root_ids))
    found = sorted(map(Provider._make, rows))
    ids = [one.id for one in found]
    uuids = [one.uuid for one in found]
    held = stock.by_provider_id(connection, ids)
    used = _used(connection, ids)
    carried = placement_traits.CARRIED.of_providers(connection, uuids)
    joined = aggregates.of_providers(connection, uuids)
    by_root: dict[int, list[ProviderInTree]] = defaultdict(list)
    for one in found:
        by_root[one.root_id].append(
            ProviderInTree(
                provider=one,
                inventories=tuple(held.get(one.id, {}).values()),
                used=used.get(one.id, {}),
                traits=tuple(sorted(carried.get(one.uuid, ()))),
                aggregates=tuple(sorted(joined.get(one.uuid, ()))),
            )
        )
    return {root: tuple(some) for root, some in by_root.items()}


def _used(connection: Connection, ids: Iterable[int]) -> dict[int, dict[str, int]]:
    held = allocations.c
    query = (
        select(held.resource_provider_id, tables.resource_classes.c.name, func.sum(held.used))
        .join(tables.resource_classes, tables.resource_classes.c.id == held.resource_class_id)
        .group_by(held.resource_provider_id, tables.resource_classes.c.name)
    )
    rows = sql.rows_among(connection, query, held.resource_provider_id, ids)
    return sql.nested((provider, name, int(amount)) for provider, name, amount in rows)


def _among(connection: Connection, query: Select[Any], roots: Roots) -> Select[Any]:
    return query if roots is None else query.where(sql.among(connection, _ROOT, roots))


def _whole(amount: ColumnElement[Any]) -> ColumnElement[int]:
    return sa.cast(amount, sa.BigInteger)


_TRAIT_ID = select(traits.c.id).where(traits.c.name == bindparam("trait")).scalar_subquery()
_CARRIERS = select(_CARRIED.resource_provider_id).where(_CARRIED.trait_id == _TRAIT_ID)
_LACKING = (
    enabled_nodes()
    .outerjoin(resource_providers, is_same_uuid(resource_providers.c.uuid, compute_nodes.c.uuid))
    .where(
        ~exists().where(
            _CARRIED.trait_id == _TRAIT_ID, _CARRIED.resource_provider_id == resource_providers.c.id
        )
    )
)
# Most clouds have no provider with the trait. That takes no time, so it is checked first.
_ALL_HAVE = select(and_(_CARRIERS.exists(), enabled_nodes().exists(), ~_LACKING.exists()))


def all_nodes_have(connection: Connection, trait: str) -> bool:
    """Return whether the root provider of every node whose service is enabled has a trait.

    It is false if there is no such node. A node whose provider is not there yet lacks it.
    """
    return bool(connection.scalar(_ALL_HAVE, {"trait": trait}))
