# SPDX-License-Identifier: Apache-2.0
"""Queries of rows that violate an invariant of the database."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, ColumnElement, Connection, Select, Table, func, select

from placement_sched.db import sql
from placement_sched.db.collations import is_same_uuid
from placement_sched.db.tables import (
    allocations,
    cells,
    compute_nodes,
    consumer_types,
    consumers,
    decision_places,
    decisions,
    instances,
    inventories,
    resource_classes,
    resource_providers,
    server_groups,
)
from placement_sched.model.aggregates import AFFINITY, ANTI_AFFINITY
from placement_sched.model.decision import SELECT, SELECTED
from placement_sched.model.provider import INSTANCE_TYPE
from placement_sched.store.placement.capacity import is_over_capacity


class Invariant(StrEnum):
    """The invariants, with their names in ``--format json``."""

    OVER_CAPACITY = "over_capacity"
    NO_INVENTORY = "allocation_without_inventory"
    NO_PROVIDER = "allocation_without_provider"
    NO_CONSUMER = "allocation_without_consumer"
    ALLOCATED_TWICE = "allocated_twice"
    NO_ALLOCATIONS = "consumer_without_allocations"
    NO_PARENT = "parent_unknown"
    PARENT_LOOP = "parent_loop"
    WRONG_ROOT = "wrong_root"
    PROVIDER_TWICE = "provider_twice"
    ANOTHER_HOST = "instance_on_another_host"
    UNKNOWN_GROUP = "instance_in_unknown_group"
    AFFINITY = "affinity"
    ANTI_AFFINITY = "anti_affinity"
    NOT_CLAIMED = "decision_without_claim"
    NOT_RECORDED = "claim_without_instance"


@dataclass(frozen=True, slots=True)
class Violation:
    """A violated invariant, with a sentence about the rows that violate it.

    A violation is ``allowed`` if the inventory may have been reduced below its allocations.
    OpenStack placement permits such a reduction.
    """

    invariant: StrEnum
    detail: str
    allowed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationResult:
    """The violations that a check of the whole database found.

    ``checked`` maps kinds of rows to their numbers. ``truncated`` has the invariants with further
    violations that are not listed.
    """

    violations: tuple[Violation, ...]
    allowed: tuple[Violation, ...]
    checked: Mapping[str, int]
    truncated: frozenset[Invariant] = frozenset()


#: Changes that nova made within this time before the last read of a cell may be missing in the
#: instance records.
LAG = timedelta(seconds=60)

_ALLOCATIONS, _OWNED, _PROVIDERS = allocations.c, inventories.c, resource_providers.c
_CONSUMERS, _INSTANCES, _NODES = consumers.c, instances.c, compute_nodes.c
_GROUPS, _DECISIONS, _PLACES = server_groups.c, decisions.c, decision_places.c
_SAME_INVENTORY = sa.and_(
    _ALLOCATIONS.resource_provider_id == _OWNED.resource_provider_id,
    _ALLOCATIONS.resource_class_id == _OWNED.resource_class_id,
)
#: The time of the last change of an allocation.
WRITTEN = func.coalesce(_ALLOCATIONS.updated_at, _ALLOCATIONS.created_at)
#: The time of an inventory's last change.
CHANGED = func.coalesce(_OWNED.updated_at, _OWNED.created_at)
_NAMES = (
    _PROVIDERS.uuid.label("provider"),
    _PROVIDERS.name,
    resource_classes.c.name.label("resource_class"),
)
#: The condition that a consumer may belong to the claim of a decision. If the claim created both,
#: their times are equal. Consumers that no claim created have no ``updated_at``.
MAY_BE_CLAIMED = sa.or_(
    _CONSUMERS.created_at < _DECISIONS.created_at,
    sa.and_(_CONSUMERS.created_at == _DECISIONS.created_at, _CONSUMERS.updated_at.is_not(None)),
)
IS_CLAIM = sa.and_(_DECISIONS.outcome == SELECTED, _DECISIONS.kind == SELECT)
_HOLDER = _ALLOCATIONS.consumer_id.label("consumer")
_CONSUMER_ID = allocations.c.consumer_id
_ROOT = resource_providers.alias("root")
_OF_PROVIDER = resource_providers.c.id == allocations.c.resource_provider_id
_OF_ROOT = _ROOT.c.id == resource_providers.c.root_provider_id


def _is_reduced(last_written: Any) -> ColumnElement[bool]:
    """Build the condition that an inventory may have been reduced.

    It was changed after its creation, or after its last allocation, and no instance has claimed it
    since. While an inventory is over its capacity, placement permits that a consumer keeps a part
    of its amount, or that a migration takes it over, but no claim. The consumer and the allocations
    of a claim have the same time.
    """
    has_claim = (
        sa.exists()
        .where(
            _SAME_INVENTORY,
            _CONSUMERS.uuid == _ALLOCATIONS.consumer_id,
            _CONSUMERS.consumer_type_id == consumer_types.c.id,
            consumer_types.c.name == INSTANCE_TYPE,
            _CONSUMERS.created_at == _ALLOCATIONS.created_at,
            _CONSUMERS.created_at > CHANGED,
        )
        .correlate(inventories)
    )
    return sa.and_(sa.or_(_OWNED.created_at < CHANGED, last_written < CHANGED), ~has_claim)


def _select_over_capacity() -> Select[Any]:
    """Select possibly reduced inventories last, so that limits drop them."""
    # A negative amount, which no API writes, must not offset other allocations.
    positive_sum = func.sum(sa.case((_ALLOCATIONS.used > 0, _ALLOCATIONS.used), else_=0))
    sums = select(func.coalesce(positive_sum, 0)).where(_SAME_INVENTORY).correlate(inventories)
    used = sums.scalar_subquery()
    last_written = select(func.max(WRITTEN)).where(_SAME_INVENTORY).correlate(inventories)
    written = last_written.scalar_subquery()
    reduced = sa.case((_is_reduced(written), 1), else_=0).label("reduced")
    query: Select[Any] = select(
        *_NAMES,
        *(_OWNED[name] for name in ("total", "reserved", "allocation_ratio")),
        *(used.label("used"), CHANGED.label("changed"), written.label("written"), reduced),
    )
    query = with_names(query.select_from(inventories), _OWNED)
    return query.where(is_over_capacity(inventories, used)).order_by(reduced)


def with_names(query: Select[Any], columns: Any) -> Select[Any]:
    """Join the existing provider and resource class to each row of a query."""
    query = query.join(resource_providers, _PROVIDERS.id == columns.resource_provider_id)
    return query.join(resource_classes, resource_classes.c.id == columns.resource_class_id)


def select_rows_without(
    owner: Table, column: Column[Any], *shown: Any, by: str = "id"
) -> Select[Any]:
    """Build the query of rows whose ``column`` refers to no row of ``owner``."""
    query = select(*shown).select_from(column.table).outerjoin(owner, owner.c[by] == column)
    return query.where(owner.c[by].is_(None), column.is_not(None))


def select_spelled_twice(uuid: Column[Any], name: str) -> Select[Any]:
    """Build the query of uuids in several rows, ignoring case and hyphens."""
    normalized = func.replace(func.lower(uuid), "-", "")
    spelling = func.lower(func.min(uuid)).label(name)
    query = select(spelling, func.count().label("times")).group_by(normalized)
    return query.having(func.count() > 1)


def _select_allocated_twice() -> Select[Any]:
    # Grouped before the names are joined: MariaDB takes four times as long in the other order.
    names = ("consumer_id", "resource_provider_id", "resource_class_id")
    place = [_ALLOCATIONS[name] for name in names]
    query = select(*place, func.count().label("times")).group_by(*place)
    twice = query.having(func.count() > 1).subquery().c
    return with_names(select(twice.consumer_id.label("consumer"), *_NAMES, twice.times), twice)


def _group_queries() -> dict[Invariant, Select[Any]]:
    of_group = (_GROUPS.uuid.label("group"), _GROUPS.name)
    is_member = _INSTANCES.server_group == _GROUPS.uuid
    members = select(*of_group).join(instances, is_member).where(_INSTANCES.host.is_not(None))
    limit = func.coalesce(_GROUPS.max_server_per_host, 1)
    hosts = func.count(_INSTANCES.host.distinct())
    return {
        Invariant.UNKNOWN_GROUP: select(
            _INSTANCES.uuid.label("instance"), _INSTANCES.server_group.label("group")
        )
        .outerjoin(server_groups, is_member)
        .where(_INSTANCES.server_group.is_not(None), _GROUPS.id.is_(None)),
        Invariant.AFFINITY: members.add_columns(hosts.label("hosts"))
        .where(_GROUPS.policy == AFFINITY)
        .group_by(*of_group)
        .having(hosts > 1),
        Invariant.ANTI_AFFINITY: members.add_columns(
            _INSTANCES.host, func.count().label("members"), limit.label("most")
        )
        .where(_GROUPS.policy == ANTI_AFFINITY)
        .group_by(*of_group, _GROUPS.max_server_per_host, _INSTANCES.host)
        .having(func.count() > limit),
    }


def _select_not_claimed() -> Select[Any]:
    """Skip instances with a task state: a migration may hold the amounts."""
    holds = sa.exists().where(is_same_uuid(_ALLOCATIONS.consumer_id, _INSTANCES.uuid))
    is_placed = sa.exists().where(
        _PLACES.decision_uuid == _DECISIONS.uuid, _PLACES.instance_uuid == _INSTANCES.uuid
    )
    return (
        select(
            _INSTANCES.uuid.label("instance"), _DECISIONS.uuid.label("decision"), _INSTANCES.host
        )
        .join(decisions, _INSTANCES.decision_uuid == _DECISIONS.uuid)
        .where(
            IS_CLAIM,
            is_placed,
            _INSTANCES.host.is_not(None),
            _INSTANCES.task_state.is_(None),
            ~holds,
        )
    )


def _select_not_recorded() -> Select[Any]:
    """Build the query of unrecorded instances with allocations of a claim.

    A consumer created after the decision does not belong to its claim: the instance was deleted
    and a client allocated again for the same uuid. Hosts of nova cells whose database is
    unreachable are skipped, because records of their instances may be missing.
    """
    is_in_down_cell = sa.exists().where(
        _NODES.host == _PLACES.host,
        cells.c.uuid == _NODES.cell_uuid,
        cells.c.away_since.is_not(None),
    )
    return (
        select(
            _PLACES.instance_uuid.label("instance"),
            _PLACES.host,
            _PLACES.decision_uuid.label("decision"),
        )
        .join(decisions, _DECISIONS.uuid == _PLACES.decision_uuid)
        .join(consumers, is_same_uuid(_CONSUMERS.uuid, _PLACES.instance_uuid))
        .outerjoin(instances, _INSTANCES.uuid == _PLACES.instance_uuid)
        .where(
            IS_CLAIM,
            MAY_BE_CLAIMED,
            _INSTANCES.id.is_(None),
            sa.exists().where(is_same_uuid(_ALLOCATIONS.consumer_id, _PLACES.instance_uuid)),
            ~is_in_down_cell,
        )
    )


#: The statement of each invariant, which returns a row for each violation.
_QUERIES: Mapping[Invariant, Select[Any]] = {
    Invariant.OVER_CAPACITY: _select_over_capacity(),
    Invariant.NO_INVENTORY: with_names(
        select(*_NAMES, _HOLDER, _ALLOCATIONS.used)
        .select_from(allocations)
        .outerjoin(inventories, _SAME_INVENTORY),
        _ALLOCATIONS,
    ).where(_OWNED.id.is_(None)),
    Invariant.NO_PROVIDER: select_rows_without(
        resource_providers,
        _ALLOCATIONS.resource_provider_id,
        _HOLDER,
        _ALLOCATIONS.resource_provider_id.label("number"),
    ),
    Invariant.NO_CONSUMER: select_rows_without(
        consumers, _ALLOCATIONS.consumer_id, _HOLDER, by="uuid"
    ).distinct(),
    Invariant.ALLOCATED_TWICE: _select_allocated_twice(),
    Invariant.NO_ALLOCATIONS: select(_CONSUMERS.uuid.label("consumer"))
    .outerjoin(allocations, _ALLOCATIONS.consumer_id == _CONSUMERS.uuid)
    .where(_ALLOCATIONS.id.is_(None)),
    Invariant.PROVIDER_TWICE: select_spelled_twice(_PROVIDERS.uuid, "provider"),
    **_group_queries(),
    Invariant.NOT_CLAIMED: _select_not_claimed(),
    Invariant.NOT_RECORDED: _select_not_recorded(),
}


def iterate_violations(
    connection: Connection, limit: int
) -> Iterator[tuple[Invariant, Mapping[str, object]]]:
    """Yield at most ``limit`` violations of each invariant.

    A violation is a pair of the invariant and a mapping with the values of the row. If there are
    more violations, the database chooses any of them, because sorting would require finding all of
    them. Only inventories over their capacity are sorted. Violations in trees have no limit.
    """
    for invariant, query in _QUERIES.items():
        for row in connection.execute(query.limit(limit)).mappings().all():
            yield invariant, {str(name): value for name, value in row.items()}
    yield from _iterate_broken_trees(connection)
    for about in _iterate_misplaced(connection, limit):
        yield Invariant.ANOTHER_HOST, about


def _iterate_misplaced(connection: Connection, limit: int) -> Iterator[Mapping[str, object]]:
    """Yield instances with allocations only on other hosts than recorded.

    Only trees whose root is a compute node count: allocations from shared storage do not indicate
    a host. Instances with a task state are skipped, as they may be moving. An instance of a nova
    cell is reported only if its cell was read after its allocations were written.
    """
    count = 0
    for row in connection.execute(_select_misplaced_instances()).mappings():
        if count == limit:
            return
        has_times = row["written"] is not None and row["read_at"] is not None
        if row["of_cells"] and not (has_times and row["written"] < row["read_at"] - LAG):
            continue
        count += 1
        yield {name: row[name] for name in ("instance", "host", "node", "there")}


def _select_misplaced_instances() -> Select[Any]:
    # nova moves an ironic node to another nova-compute, but its instances stay recorded on the
    # first nova-compute. For such instances only the node is compared.
    is_baremetal = _NODES.report.like('%"hypervisor_type":"ironic"%')
    is_at_home = sa.and_(
        sa.or_(_NODES.host == _INSTANCES.host, is_baremetal),
        sa.or_(_INSTANCES.node.is_(None), _NODES.hypervisor_hostname == _INSTANCES.node),
    )
    roots = resource_providers.alias("roots")
    return (
        select(
            _INSTANCES.uuid.label("instance"),
            _INSTANCES.host,
            _INSTANCES.node,
            func.min(_NODES.host).label("there"),
            func.count(cells.c.id).label("of_cells"),
            func.min(cells.c.read_at).label("read_at"),
            func.max(WRITTEN).label("written"),
        )
        .join(allocations, is_same_uuid(_ALLOCATIONS.consumer_id, _INSTANCES.uuid))
        .join(resource_providers, _PROVIDERS.id == _ALLOCATIONS.resource_provider_id)
        .join(roots, roots.c.id == _PROVIDERS.root_provider_id)
        .join(compute_nodes, is_same_uuid(_NODES.uuid, roots.c.uuid))
        .outerjoin(cells, cells.c.uuid == _NODES.cell_uuid)
        .where(_INSTANCES.host.is_not(None), _INSTANCES.task_state.is_(None))
        .group_by(_INSTANCES.uuid, _INSTANCES.host, _INSTANCES.node)
        .having(func.sum(sa.case((is_at_home, 1), else_=0)) == 0)
    )


def _select_broken_trees() -> Select[Any]:
    """Build the query of providers with a wrong parent or root.

    The topmost provider of a tree has no existing parent. Providers in a loop have none.
    """
    parent, child = resource_providers.alias("parent"), resource_providers.alias("child")
    parent_id, root_id = _PROVIDERS.parent_provider_id, _PROVIDERS.root_provider_id
    query = select(_PROVIDERS.id, func.coalesce(parent_id, _PROVIDERS.id).label("topmost"))
    begin = query.outerjoin(parent, parent.c.id == parent_id).where(parent.c.id.is_(None))
    tree = begin.cte("tree", recursive=True)
    is_child = child.c.parent_provider_id == tree.c.id
    tree = tree.union_all(select(child.c.id, tree.c.topmost).join_from(tree, child, is_child))
    lacks_parent = sa.and_(parent_id.is_not(None), parent.c.id.is_(None))
    is_wrong = sa.or_(tree.c.topmost.is_(None), root_id.is_(None), root_id != tree.c.topmost)
    columns = (_PROVIDERS.uuid, _PROVIDERS.name, lacks_parent, parent_id, root_id, tree.c.topmost)
    query = select(*columns).outerjoin(parent, parent.c.id == parent_id)
    query = query.outerjoin(tree, tree.c.id == _PROVIDERS.id)
    return query.where(sa.or_(lacks_parent, is_wrong))


def _iterate_broken_trees(
    connection: Connection,
) -> Iterator[tuple[Invariant, Mapping[str, object]]]:
    for uuid, name, lacks_parent, parent_id, root_id, topmost_id in connection.execute(
        _select_broken_trees()
    ):
        values = {"provider": uuid, "name": name}
        if lacks_parent:
            yield Invariant.NO_PARENT, {**values, "number": parent_id}
        elif topmost_id is None:
            yield Invariant.PARENT_LOOP, values
        else:
            yield Invariant.WRONG_ROOT, {**values, "number": root_id, "real": topmost_id}


def list_orphans(
    connection: Connection, provider_id: int | None = None, uuids: Collection[str] | None = None
) -> tuple[str, ...]:
    """Return orphans (of ``uuids``) with allocations from a provider or node.

    An orphan is a consumer without an instance record. Consumers of other types than instances do
    not belong to compute and are never orphans. If ``provider_id`` is None, allocations from the
    tree of any compute node count.
    """
    query: Select[Any] = (
        select(_CONSUMER_ID)
        .distinct()
        .outerjoin(consumers, consumers.c.uuid == _CONSUMER_ID)
        .outerjoin(consumer_types, consumer_types.c.id == consumers.c.consumer_type_id)
        .where(
            sa.or_(consumer_types.c.id.is_(None), consumer_types.c.name == INSTANCE_TYPE),
            ~sa.exists().where(is_same_uuid(instances.c.uuid, _CONSUMER_ID)),
        )
    )
    if provider_id is not None:
        query = query.where(allocations.c.resource_provider_id == provider_id)
    else:
        query = query.join(resource_providers, _OF_PROVIDER).join(_ROOT, _OF_ROOT)
        query = query.join(compute_nodes, is_same_uuid(compute_nodes.c.uuid, _ROOT.c.uuid))
    if uuids is None:
        return tuple(connection.scalars(query.order_by(_CONSUMER_ID)))
    return tuple(sql.select_scalars_in_batches(connection, query, _CONSUMER_ID, uuids))


def list_consumers_in_trees(connection: Connection, roots: Collection[str]) -> tuple[str, ...]:
    """Return the consumers with allocations from trees with these roots."""
    query = select(_CONSUMER_ID).distinct().join(resource_providers, _OF_PROVIDER)
    query = query.join(_ROOT, _OF_ROOT)
    return tuple(sorted(set(sql.select_scalars_in_batches(connection, query, _ROOT.c.uuid, roots))))


def find_allocated_elsewhere(
    connection: Connection, uuids: Collection[str] | None = None
) -> dict[str, dict[str, frozenset[str]]]:
    """Find recorded instances that also have allocations from other hosts.

    ``uuids`` are the instances to check (None: all). The result maps the uuid of each instance to
    the names of the other hosts, and each name to the uuids of the root providers.
    """
    node = compute_nodes.alias()
    columns = (_CONSUMER_ID, node.c.host, _ROOT.c.uuid, instances.c.host.label("own"))
    query = (
        select(*columns)
        .distinct()
        .join(resource_providers, _OF_PROVIDER)
        .join(_ROOT, _OF_ROOT)
        .join(node, is_same_uuid(node.c.uuid, _ROOT.c.uuid))
        .join(instances, is_same_uuid(instances.c.uuid, _CONSUMER_ID))
    )
    has_several_roots = (
        select(_CONSUMER_ID)
        .join(resource_providers, _OF_PROVIDER)
        .group_by(_CONSUMER_ID)
        .having(sa.func.count(sa.distinct(resource_providers.c.root_provider_id)) > 1)
    )
    if uuids is None:
        rows = connection.execute(query.where(_CONSUMER_ID.in_(has_several_roots))).all()
    else:
        rows = list(sql.select_in_batches(connection, query, _CONSUMER_ID, uuids))
    consumers_at_home = {row.consumer_id for row in rows if row.host == row.own}
    roots_by_instance: dict[str, dict[str, frozenset[str]]] = {}
    for row in rows:
        if row.host != row.own and row.consumer_id in consumers_at_home:
            hosts = roots_by_instance.setdefault(row.consumer_id, {})
            hosts[row.host] = hosts.get(row.host, frozenset()) | {row.uuid}
    return roots_by_instance
