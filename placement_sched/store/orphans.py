"""Consumers that hold allocations which no instance, or not their host, accounts for."""

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Select, select

from placement_sched.db import sql
from placement_sched.db.collations import is_same_uuid
from placement_sched.db.tables import (
    allocations,
    compute_nodes,
    consumer_types,
    consumers,
    instances,
    resource_providers,
)
from placement_sched.model.provider import INSTANCE_TYPE

_HOLDER = allocations.c.consumer_id
_ROOT = resource_providers.alias("root")
_OF_PROVIDER = resource_providers.c.id == allocations.c.resource_provider_id
_OF_ROOT = _ROOT.c.id == resource_providers.c.root_provider_id


def orphans(connection: Connection, provider_id: int | None = None) -> tuple[str, ...]:
    """Return the orphans that hold something of a provider, or of any compute node's tree.

    A consumer of another type than instances are is none of compute's, and no orphan.
    """
    return tuple(connection.scalars(_orphans(provider_id).order_by(_HOLDER)))


def still_orphans(
    connection: Connection, uuids: Collection[str], provider_id: int | None = None
) -> frozenset[str]:
    """Return those of these consumers that are orphans."""
    rows = sql.rows_among(connection, _orphans(provider_id), _HOLDER, uuids)
    return frozenset(row.consumer_id for row in rows)


def _orphans(provider_id: int | None) -> Select[Any]:
    query = (
        select(_HOLDER)
        .distinct()
        .outerjoin(consumers, consumers.c.uuid == _HOLDER)
        .outerjoin(consumer_types, consumer_types.c.id == consumers.c.consumer_type_id)
        .where(
            sa.or_(consumer_types.c.id.is_(None), consumer_types.c.name == INSTANCE_TYPE),
            ~sa.exists().where(is_same_uuid(instances.c.uuid, _HOLDER)),
        )
    )
    held = allocations.c.resource_provider_id
    if provider_id is not None:
        return query.where(held == provider_id)
    return (
        query.join(resource_providers, resource_providers.c.id == held)
        .join(_ROOT, _ROOT.c.id == resource_providers.c.root_provider_id)
        .join(compute_nodes, is_same_uuid(compute_nodes.c.uuid, _ROOT.c.uuid))
    )


def holders(connection: Connection, roots: Collection[str]) -> tuple[str, ...]:
    """Return the consumers with allocations of the trees of these root providers, by uuid."""
    query = select(_HOLDER).distinct().join(resource_providers, _OF_PROVIDER)
    rows = sql.rows_among(connection, query.join(_ROOT, _OF_ROOT), _ROOT.c.uuid, roots)
    return tuple(sorted({row.consumer_id for row in rows}))


def on_other_hosts(
    connection: Connection, uuids: Collection[str] | None = None
) -> dict[str, dict[str, frozenset[str]]]:
    """Return recorded instances with allocations of several hosts, if one is their own.

    By instance uuid and name of each other host: the root providers of the allocations.
    """
    node = compute_nodes.alias()
    columns = (_HOLDER, node.c.host, _ROOT.c.uuid, instances.c.host.label("own"))
    query = (
        select(*columns)
        .distinct()
        .join(resource_providers, _OF_PROVIDER)
        .join(_ROOT, _OF_ROOT)
        .join(node, is_same_uuid(node.c.uuid, _ROOT.c.uuid))
        .join(instances, is_same_uuid(instances.c.uuid, _HOLDER))
    )
    several = (
        select(_HOLDER)
        .join(resource_providers, _OF_PROVIDER)
        .group_by(_HOLDER)
        .having(sa.func.count(sa.distinct(resource_providers.c.root_provider_id)) > 1)
    )
    if uuids is None:
        rows = connection.execute(query.where(_HOLDER.in_(several))).all()
    else:
        rows = list(sql.rows_among(connection, query, _HOLDER, uuids))
    at_home = {row.consumer_id for row in rows if row.host == row.own}
    found: dict[str, dict[str, frozenset[str]]] = {}
    for row in rows:
        if row.host != row.own and row.consumer_id in at_home:
            hosts = found.setdefault(row.consumer_id, {})
            hosts[row.host] = hosts.get(row.host, frozenset()) | {row.uuid}
    return found
