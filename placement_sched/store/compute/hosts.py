# SPDX-License-Identifier: Apache-2.0
"""Hosts with their services, and the contents of their provider trees.

The number of statements does not depend on the number of hosts, because the database joins the rows
of each tree to a text.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import orjson
import sqlalchemy as sa
from sqlalchemy import Connection, Select, and_, bindparam, exists, func, select

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
from placement_sched.model.grouping import nest_rows
from placement_sched.model.provider import Inventory, Provider
from placement_sched.store.compute.services import select_enabled_nodes
from placement_sched.store.placement import aggregates, resource_classes
from placement_sched.store.placement import inventories as inventory_store
from placement_sched.store.placement import resource_providers as providers
from placement_sched.store.placement import traits as placement_traits
from placement_sched.store.placement.capacity import build_used_sum, build_whole_capacity

_NODES, _SERVICES, _PROVIDERS = compute_nodes.c, services.c, resource_providers.c
_PROVIDER_TRAITS = resource_provider_traits.c
#: Providers created before nested providers have no root and are their own root.
_ROOT = func.coalesce(_PROVIDERS.root_provider_id, _PROVIDERS.id)

#: The ids of the root providers to query, or None for all.
Roots = Collection[int] | None
#: Pairs of capacity and used amount, by resource class.
TreeAmounts = Mapping[str, tuple[int, int]]


class ServedNode(NamedTuple):
    """A compute node with its service (default: enabled, never seen up)."""

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
    """A provider of a tree with details, and used amounts by class."""

    provider: Provider
    inventories: tuple[Inventory, ...]
    used: Mapping[str, int]
    traits: tuple[str, ...]
    aggregates: tuple[str, ...]


def list_served_nodes(connection: Connection, *, host: str | None = None) -> list[ServedNode]:
    """Return compute nodes (of a host or all), sorted by host and name."""
    is_compute_service = and_(_SERVICES.host == _NODES.host, _SERVICES.binary == COMPUTE_BINARY)
    query = (
        select(
            *(_NODES[name] for name in ("host", "hypervisor_hostname", "uuid", "cell_uuid")),
            _PROVIDERS.id,
            func.coalesce(_SERVICES.disabled, 0),
            _SERVICES.disabled_reason,
            func.coalesce(_SERVICES.forced_down, 0),
            _SERVICES.last_seen_up,
        )
        .select_from(compute_nodes)
        .outerjoin(services, is_compute_service)
        .outerjoin(resource_providers, is_same_uuid(_PROVIDERS.uuid, _NODES.uuid))
    )
    if host is not None:
        query = query.where(_NODES.host == host)
    # Sorted in Python, because databases order names differently.
    return sorted(map(ServedNode._make, connection.execute(query)), key=lambda node: node[:2])


def find_roots_with_trait(connection: Connection, name: str) -> frozenset[int]:
    """Return the root ids of all trees with a provider that has this trait."""
    query = (
        select(_ROOT, traits.c.name)
        .join(resource_provider_traits, _PROVIDER_TRAITS.resource_provider_id == _PROVIDERS.id)
        .join(traits, traits.c.id == _PROVIDER_TRAITS.trait_id)
        .where(traits.c.name == name)
    )
    # MariaDB ignores the case of names.
    return frozenset(root for root, trait in connection.execute(query) if trait == name)


def sum_amounts(
    connection: Connection, roots: Roots, classes: Collection[str] | None = None
) -> dict[int | None, TreeAmounts]:
    """Map root ids to the capacity and usage of each class in the tree.

    ``classes`` are the names of the classes to sum (None: all). Executes two statements.
    """
    names = resource_classes.map_names_by_id(connection)
    columns = inventories.c
    capacity = func.sum(build_whole_capacity(connection, inventories))
    used = func.sum(build_used_sum(columns.resource_provider_id, columns.resource_class_id))
    rows = (
        select(
            _ROOT.label("root"),
            columns.resource_class_id.label("class_id"),
            sa.cast(capacity, sa.BigInteger).label("capacity"),
            sa.cast(used, sa.BigInteger).label("used"),
        )
        .join(resource_providers, _PROVIDERS.id == columns.resource_provider_id)
        .group_by(_ROOT, columns.resource_class_id)
    )
    if classes is not None:
        class_ids = [class_id for class_id, name in names.items() if name in classes]
        rows = rows.where(columns.resource_class_id.in_(class_ids))
    sums = _limit_to_roots(connection, rows, roots).subquery().c
    amounts = sql.build_json_rows(connection, (sums.class_id, sums.capacity, sums.used))
    query = select(sums.root, amounts).group_by(sums.root)
    return {
        root: {
            names[class_id]: (capacity, used_amount)
            for class_id, capacity, used_amount in sorted(sql.parse_json_rows([text]))
            if class_id in names
        }
        for root, text in connection.execute(query).all()
    }


def map_trait_names(connection: Connection) -> dict[int, str]:
    """Map the ids of all traits to their names."""
    return dict(map(tuple, connection.execute(select(traits.c.id, traits.c.name))))


def map_traits(connection: Connection, roots: Roots) -> dict[int, Sequence[int]]:
    """Map root ids to the distinct trait ids of the providers of each tree."""
    ids = func.aggregate_strings(sa.cast(_PROVIDER_TRAITS.trait_id, sa.String), ",")
    carried = select(_PROVIDER_TRAITS.resource_provider_id, ids)
    if roots is not None:
        within = _limit_to_roots(connection, select(_PROVIDERS.id), roots)
        carried = carried.where(_PROVIDER_TRAITS.resource_provider_id.in_(within))
    # Grouped by provider first, in index order: sorting the traits of whole trees takes longer.
    by_provider = carried.group_by(_PROVIDER_TRAITS.resource_provider_id).subquery()
    provider, texts = by_provider.c
    query = (
        select(_ROOT, func.aggregate_strings(texts, ","))
        .join(by_provider, provider == _PROVIDERS.id)
        .group_by(_ROOT)
    )
    ids_by_text: dict[str, Sequence[int]] = {}
    trait_ids = {}
    for root, text in connection.execute(query).all():
        if text not in ids_by_text:
            parsed = orjson.loads(f"[{text}]")
            unique = set(parsed)
            ids_by_text[text] = parsed if len(unique) == len(parsed) else sorted(unique)
        trait_ids[root] = ids_by_text[text]
    return trait_ids


def map_trees(
    connection: Connection, root_ids: Collection[int]
) -> dict[int, tuple[ProviderInTree, ...]]:
    """Map root ids to all providers of their trees, sorted by provider id."""
    rows = sql.select_in_batches(connection, providers.PROVIDERS, _ROOT, sorted(root_ids))
    tree_providers = sorted(map(Provider._make, rows))
    ids = [provider.id for provider in tree_providers]
    uuids = [provider.uuid for provider in tree_providers]
    inventories_by_id = inventory_store.map_by_provider_id(connection, ids)
    columns, classes = allocations.c, tables.resource_classes.c
    sums = (
        select(columns.resource_provider_id, classes.name, func.sum(columns.used))
        .join(tables.resource_classes, classes.id == columns.resource_class_id)
        .group_by(columns.resource_provider_id, classes.name)
    )
    amounts = sql.select_in_batches(connection, sums, columns.resource_provider_id, ids)
    used = nest_rows((provider, name, int(amount)) for provider, name, amount in amounts)
    carried = placement_traits.ASSOCIATIONS.map_by_provider_uuid(connection, uuids)
    joined = aggregates.map_by_provider_uuid(connection, uuids)
    by_root: dict[int, list[ProviderInTree]] = defaultdict(list)
    for provider in tree_providers:
        by_root[provider.root_id].append(
            ProviderInTree(
                provider=provider,
                inventories=tuple(inventories_by_id.get(provider.id, {}).values()),
                used=used.get(provider.id, {}),
                traits=tuple(sorted(carried.get(provider.uuid, ()))),
                aggregates=tuple(sorted(joined.get(provider.uuid, ()))),
            )
        )
    return {root: tuple(members) for root, members in by_root.items()}


def _limit_to_roots(connection: Connection, query: Select[Any], roots: Roots) -> Select[Any]:
    return query if roots is None else query.where(sql.build_in_condition(connection, _ROOT, roots))


_TRAIT_ID = select(traits.c.id).where(traits.c.name == bindparam("trait")).scalar_subquery()
_PROVIDERS_WITH_TRAIT = select(_PROVIDER_TRAITS.resource_provider_id).where(
    _PROVIDER_TRAITS.trait_id == _TRAIT_ID
)
_LACKING = (
    select_enabled_nodes()
    .outerjoin(resource_providers, is_same_uuid(resource_providers.c.uuid, compute_nodes.c.uuid))
    .where(
        ~exists().where(
            _PROVIDER_TRAITS.trait_id == _TRAIT_ID,
            _PROVIDER_TRAITS.resource_provider_id == resource_providers.c.id,
        )
    )
)
# First whether any provider has the trait: the test is cheap, and false in most clouds.
_IS_LACKING = select(
    _PROVIDERS_WITH_TRAIT.exists(), and_(_PROVIDERS_WITH_TRAIT.exists(), _LACKING.exists())
)
_COUNTS = select(sql.build_count(_LACKING), sql.build_count(select_enabled_nodes()))


def count_nodes_lacking_trait(connection: Connection, trait: str) -> tuple[int, int] | None:
    """Count the enabled compute nodes whose root provider lacks a trait.

    Returns this number and the number of all enabled nodes, or None if no provider has the trait. A
    node without a provider lacks the trait. If all nodes have it, both numbers are 0.
    """
    is_used, is_lacking = connection.execute(_IS_LACKING, {"trait": trait}).one()
    if not is_used:
        return None
    if not is_lacking:
        return 0, 0
    lacking, enabled = connection.execute(_COUNTS, {"trait": trait}).one()
    return int(lacking), int(enabled)
