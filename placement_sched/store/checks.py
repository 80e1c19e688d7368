"""Rows that an operator has to act on: each question is one statement, whatever a cloud's size."""

from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Column, Connection, Select, Table, func, select

from placement_sched.db import sql, tables
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
from placement_sched.model.checks import Invariant
from placement_sched.model.decision import SELECT, SELECTED
from placement_sched.model.provider import INSTANCE_TYPE
from placement_sched.store.placement.capacity import overfull

#: The records of instances may lack what nova wrote so short a time before its cell was last read.
LAG = timedelta(seconds=60)

_HELD, _OWNED, _PROVIDERS = allocations.c, inventories.c, resource_providers.c
_CONSUMERS, _INSTANCES, _NODES = consumers.c, instances.c, compute_nodes.c
_GROUPS, _DECISIONS, _PLACES = server_groups.c, decisions.c, decision_places.c
_SAME_INVENTORY = sa.and_(
    _HELD.resource_provider_id == _OWNED.resource_provider_id,
    _HELD.resource_class_id == _OWNED.resource_class_id,
)
#: When an allocation was last written.
WRITTEN = func.coalesce(_HELD.updated_at, _HELD.created_at)
#: Columns of an inventory's last change and of its creation.
INVENTORY_TIMES = (
    func.coalesce(_OWNED.updated_at, _OWNED.created_at).label("changed"),
    _OWNED.created_at.label("made"),
)
_NAMES = (
    _PROVIDERS.uuid.label("provider"),
    _PROVIDERS.name,
    resource_classes.c.name.label("resource_class"),
)
#: A consumer that a decision's claim may have made. Both are made in one transaction, at equal
#: times; a consumer of the same second that no claim made has no ``updated_at``.
MAY_BE_CLAIMED = sa.or_(
    _CONSUMERS.created_at < _DECISIONS.created_at,
    sa.and_(_CONSUMERS.created_at == _DECISIONS.created_at, _CONSUMERS.updated_at.is_not(None)),
)
IS_CLAIM = sa.and_(_DECISIONS.outcome == SELECTED, _DECISIONS.kind == SELECT)


def over_capacity() -> Select[Any]:
    """Return the inventories of which more is allocated than they have.

    ``changed`` is the time of the inventory's last change, ``made`` that of its creation,
    ``written`` that of the last allocation. Last are the inventories that may have shrunk below
    their allocations, so that a limit cuts these.
    """
    # An amount below zero, which no API writes, makes no room for the others.
    taken = func.sum(sa.case((_HELD.used > 0, _HELD.used), else_=0))
    here = select(func.coalesce(taken, 0)).where(_SAME_INVENTORY).correlate(inventories)
    used = here.scalar_subquery()
    last = select(func.max(WRITTEN)).where(_SAME_INVENTORY).correlate(inventories)
    changed = func.coalesce(_OWNED.updated_at, _OWNED.created_at)
    shrunk = sa.or_(
        changed > last.scalar_subquery(),
        sa.and_(changed == last.scalar_subquery(), _OWNED.created_at < changed),
    )
    query: Select[Any] = select(
        *_NAMES,
        *(_OWNED[name] for name in ("total", "reserved", "allocation_ratio")),
        used.label("used"),
        *INVENTORY_TIMES,
        last.scalar_subquery().label("written"),
    )
    query = with_names(query.select_from(inventories), _OWNED).where(overfull(inventories, used))
    return query.order_by(sa.case((shrunk, 1), else_=0))


def _without_inventory() -> Select[Any]:
    query = select(*_NAMES, _HELD.consumer_id.label("consumer"), _HELD.used)
    query = query.select_from(allocations).outerjoin(inventories, _SAME_INVENTORY)
    return with_names(query, _HELD).where(_OWNED.id.is_(None))


def with_names(query: Select[Any], of: Any) -> Select[Any]:
    """Join provider and class; a row without either belongs to another invariant."""
    query = query.join(resource_providers, _PROVIDERS.id == of.resource_provider_id)
    return query.join(resource_classes, resource_classes.c.id == of.resource_class_id)


def rows_without(owner: Table, column: Column[Any], *shown: Any, by: str = "id") -> Select[Any]:
    """Return ``shown`` of the rows whose ``column`` refers to no row of ``owner``."""
    query = select(*shown).select_from(column.table).outerjoin(owner, owner.c[by] == column)
    return query.where(owner.c[by].is_(None), column.is_not(None))


def with_provider(query: Select[Any], number: Column[Any]) -> Select[Any]:
    """Add uuid and name of the provider of this number, where it exists."""
    names = (_PROVIDERS.uuid.label("provider"), _PROVIDERS.name)
    return query.outerjoin(resource_providers, _PROVIDERS.id == number).add_columns(*names)


def _spelled_twice(uuid: Column[Any], name: str) -> Select[Any]:
    """Return the uuids that several rows have, in upper or lower case, with hyphens or without."""
    same = func.replace(func.lower(uuid), "-", "")
    shown = func.lower(func.min(uuid)).label(name)
    query = select(shown, func.count().label("times")).group_by(same)
    return query.having(func.count() > 1)


def _allocated_twice() -> Select[Any]:
    # Found before the names are joined: MariaDB takes four times as long the other way round.
    place = (_HELD.consumer_id, _HELD.resource_provider_id, _HELD.resource_class_id)
    query = select(*place, func.count().label("times")).group_by(*place)
    twice = query.having(func.count() > 1).subquery().c
    return with_names(select(twice.consumer_id.label("consumer"), *_NAMES, twice.times), twice)


def _without_allocations() -> Select[Any]:
    query = select(_CONSUMERS.uuid.label("consumer"))
    query = query.outerjoin(allocations, _HELD.consumer_id == _CONSUMERS.uuid)
    return query.where(_HELD.id.is_(None))


def _of_groups() -> dict[Invariant, Select[Any]]:
    of_group = (_GROUPS.uuid.label("group"), _GROUPS.name)
    is_member = _INSTANCES.server_group == _GROUPS.uuid
    members = select(*of_group).join(instances, is_member).where(_INSTANCES.host.is_not(None))
    most = func.coalesce(_GROUPS.max_server_per_host, 1)
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
            _INSTANCES.host, func.count().label("members"), most.label("most")
        )
        .where(_GROUPS.policy == ANTI_AFFINITY)
        .group_by(*of_group, _GROUPS.max_server_per_host, _INSTANCES.host)
        .having(func.count() > most),
    }


def _not_claimed() -> Select[Any]:
    """Return the instances that a decision placed, and that hold no allocations."""
    holds = sa.exists().where(is_same_uuid(_HELD.consumer_id, _INSTANCES.uuid))
    is_placed = sa.exists().where(
        _PLACES.decision_uuid == _DECISIONS.uuid, _PLACES.instance_uuid == _INSTANCES.uuid
    )
    return (
        select(
            _INSTANCES.uuid.label("instance"), _DECISIONS.uuid.label("decision"), _INSTANCES.host
        )
        .join(decisions, _INSTANCES.decision_uuid == _DECISIONS.uuid)
        .where(IS_CLAIM, is_placed, _INSTANCES.host.is_not(None), ~holds)
    )


def _not_recorded() -> Select[Any]:
    """Return the instances that hold what a decision claimed for them, and have no record.

    A consumer that was made after the decision is not the one of its claim: the instance was
    deleted, and a client has allocated again for the same uuid. While the database of a nova's cell
    does not answer, records of its instances may be missing here.
    """
    is_away = sa.exists().where(
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
            sa.exists().where(is_same_uuid(_HELD.consumer_id, _PLACES.instance_uuid)),
            ~is_away,
        )
    )


_HOLDER = _HELD.consumer_id.label("consumer")
#: A statement for each invariant, which returns a row for each violation.
_QUESTIONS: Mapping[Invariant, Select[Any]] = {
    Invariant.OVER_CAPACITY: over_capacity(),
    Invariant.NO_INVENTORY: _without_inventory(),
    Invariant.NO_PROVIDER: rows_without(
        resource_providers,
        _HELD.resource_provider_id,
        _HOLDER,
        _HELD.resource_provider_id.label("number"),
    ),
    Invariant.NO_CLASS: with_provider(
        rows_without(
            resource_classes,
            _HELD.resource_class_id,
            _HOLDER,
            _HELD.resource_class_id.label("number"),
        ),
        _HELD.resource_provider_id,
    ),
    Invariant.NO_CONSUMER: rows_without(
        consumers, _HELD.consumer_id, _HOLDER, by="uuid"
    ).distinct(),
    Invariant.ALLOCATED_TWICE: _allocated_twice(),
    Invariant.NO_ALLOCATIONS: _without_allocations(),
    Invariant.NO_PROJECT: rows_without(
        tables.projects,
        _CONSUMERS.project_id,
        _CONSUMERS.uuid.label("consumer"),
        _CONSUMERS.project_id.label("number"),
    ),
    Invariant.CONSUMER_TWICE: _spelled_twice(_CONSUMERS.uuid, "consumer"),
    Invariant.PROVIDER_TWICE: _spelled_twice(_PROVIDERS.uuid, "provider"),
    **_of_groups(),
    Invariant.NOT_CLAIMED: _not_claimed(),
    Invariant.NOT_RECORDED: _not_recorded(),
}


def violations(
    connection: Connection, most: int
) -> Iterator[tuple[Invariant, Mapping[str, object]]]:
    """Yield at most ``most`` violations of each invariant, with the values of its sentence.

    If there are more, the database chooses: an order would make it find all of them first. Only
    inventories over their capacity have one.
    """
    for invariant, query in _QUESTIONS.items():
        for row in connection.execute(query.limit(most)).mappings().all():
            yield invariant, {str(name): value for name, value in row.items()}
    yield from _broken_trees(connection)
    for about in _elsewhere(connection, most):
        yield Invariant.ANOTHER_HOST, about


def _elsewhere(connection: Connection, most: int) -> Iterator[Mapping[str, object]]:
    """Yield the instances that hold resources of hosts, but none of their recorded host.

    A host's tree is one whose root is a compute node: what else an instance holds, as of a shared
    storage, says nothing about its host. An instance in a task may be on its way. One of a nova
    whose cells are read is named only if its cell was read after its allocations were written.
    """
    number = 0
    for row in connection.execute(_instances_elsewhere()).mappings():
        if number == most:
            return
        known = row["written"] is not None and row["read_at"] is not None
        if row["of_cells"] and not (known and row["written"] < row["read_at"] - LAG):
            continue
        number += 1
        yield {name: row[name] for name in ("instance", "host", "node", "there")}


def _instances_elsewhere() -> Select[Any]:
    # nova moves a node of ironic to another nova-compute and leaves its instances recorded at the
    # first one: of these the node alone says where an instance is.
    is_baremetal = _NODES.report.like('%"hypervisor_type":"ironic"%')
    at_home = sa.and_(
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
        .join(allocations, is_same_uuid(_HELD.consumer_id, _INSTANCES.uuid))
        .join(resource_providers, _PROVIDERS.id == _HELD.resource_provider_id)
        .join(roots, roots.c.id == _PROVIDERS.root_provider_id)
        .join(compute_nodes, is_same_uuid(_NODES.uuid, roots.c.uuid))
        .outerjoin(cells, cells.c.uuid == _NODES.cell_uuid)
        .where(_INSTANCES.host.is_not(None), _INSTANCES.task_state.is_(None))
        .group_by(_INSTANCES.uuid, _INSTANCES.host, _INSTANCES.node)
        .having(func.sum(sa.case((at_home, 1), else_=0)) == 0)
    )


class _Child(NamedTuple):
    """A provider that has a parent; ``found`` is that parent's number, None if it is missing."""

    id: int
    uuid: str
    name: str
    root_id: int | None
    parent_id: int
    found: int | None


def _broken_trees(connection: Connection) -> Iterator[tuple[Invariant, Mapping[str, object]]]:
    """Yield unknown parents, loops, and roots that are not the end of the way up.

    Only the providers that have a parent are read: most of a cloud has none.
    """
    roots = select(_PROVIDERS.uuid, _PROVIDERS.name, _PROVIDERS.root_provider_id, _PROVIDERS.id)
    wrong = sa.or_(
        _PROVIDERS.root_provider_id.is_(None), _PROVIDERS.root_provider_id != _PROVIDERS.id
    )
    for uuid, name, root, number in connection.execute(
        roots.where(_PROVIDERS.parent_provider_id.is_(None), wrong)
    ).all():
        about = {"provider": uuid, "name": name}
        yield Invariant.WRONG_ROOT, {**about, "number": root, "real": number}
    children = _children(connection)
    ends: dict[int, int | None] = {}
    for child in children.values():
        about = {"provider": child.uuid, "name": child.name}
        if child.found is None:
            yield Invariant.NO_PARENT, {**about, "number": child.parent_id}
            continue
        real = _root_of(child, children, ends)
        if real is None:
            yield Invariant.PARENT_LOOP, about
        elif real != child.root_id:
            yield Invariant.WRONG_ROOT, {**about, "number": child.root_id, "real": real}


def _children(connection: Connection) -> Mapping[int, _Child]:
    parent, number = resource_providers.alias("parent"), _PROVIDERS.parent_provider_id
    columns = (_PROVIDERS.id, _PROVIDERS.uuid, _PROVIDERS.name, _PROVIDERS.root_provider_id)
    query = select(*columns, number, parent.c.id).outerjoin(parent, parent.c.id == number)
    rows = connection.execute(query.where(number.is_not(None))).all()
    return {row[0]: _Child(*row) for row in rows}


def _root_of(
    child: _Child, children: Mapping[int, _Child], ends: dict[int, int | None]
) -> int | None:
    """Return the number at the end of the way up, None if that is a loop; note it in ``ends``."""
    way, at = dict[int, None](), child.id
    while at in children and at not in ends and at not in way:
        way[at] = None
        at = children[at].parent_id
    end = ends.get(at, None if at in way else at)
    ends.update(dict.fromkeys(way, end))
    return end


_ORPHANS_HOLDER = allocations.c.consumer_id
_ROOT = resource_providers.alias("root")
_OF_PROVIDER = resource_providers.c.id == allocations.c.resource_provider_id
_OF_ROOT = _ROOT.c.id == resource_providers.c.root_provider_id


def orphans(connection: Connection, provider_id: int | None = None) -> tuple[str, ...]:
    """Return the orphans that hold something of a provider, or of any compute node's tree.

    A consumer of another type than instances are is none of compute's, and no orphan.
    """
    return tuple(connection.scalars(_orphans(provider_id).order_by(_ORPHANS_HOLDER)))


def still_orphans(
    connection: Connection, uuids: Collection[str], provider_id: int | None = None
) -> frozenset[str]:
    """Return those of these consumers that are orphans."""
    rows = sql.rows_among(connection, _orphans(provider_id), _ORPHANS_HOLDER, uuids)
    return frozenset(row.consumer_id for row in rows)


def _orphans(provider_id: int | None) -> Select[Any]:
    query = (
        select(_ORPHANS_HOLDER)
        .distinct()
        .outerjoin(consumers, consumers.c.uuid == _ORPHANS_HOLDER)
        .outerjoin(consumer_types, consumer_types.c.id == consumers.c.consumer_type_id)
        .where(
            sa.or_(consumer_types.c.id.is_(None), consumer_types.c.name == INSTANCE_TYPE),
            ~sa.exists().where(is_same_uuid(instances.c.uuid, _ORPHANS_HOLDER)),
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
    query = select(_ORPHANS_HOLDER).distinct().join(resource_providers, _OF_PROVIDER)
    rows = sql.rows_among(connection, query.join(_ROOT, _OF_ROOT), _ROOT.c.uuid, roots)
    return tuple(sorted({row.consumer_id for row in rows}))


def on_other_hosts(
    connection: Connection, uuids: Collection[str] | None = None
) -> dict[str, dict[str, frozenset[str]]]:
    """Return recorded instances with allocations of several hosts, if one is their own.

    By instance uuid and name of each other host: the root providers of the allocations.
    """
    node = compute_nodes.alias()
    columns = (_ORPHANS_HOLDER, node.c.host, _ROOT.c.uuid, instances.c.host.label("own"))
    query = (
        select(*columns)
        .distinct()
        .join(resource_providers, _OF_PROVIDER)
        .join(_ROOT, _OF_ROOT)
        .join(node, is_same_uuid(node.c.uuid, _ROOT.c.uuid))
        .join(instances, is_same_uuid(instances.c.uuid, _ORPHANS_HOLDER))
    )
    several = (
        select(_ORPHANS_HOLDER)
        .join(resource_providers, _OF_PROVIDER)
        .group_by(_ORPHANS_HOLDER)
        .having(sa.func.count(sa.distinct(resource_providers.c.root_provider_id)) > 1)
    )
    if uuids is None:
        rows = connection.execute(query.where(_ORPHANS_HOLDER.in_(several))).all()
    else:
        rows = list(sql.rows_among(connection, query, _ORPHANS_HOLDER, uuids))
    at_home = {row.consumer_id for row in rows if row.host == row.own}
    found: dict[str, dict[str, frozenset[str]]] = {}
    for row in rows:
        if row.host != row.own and row.consumer_id in at_home:
            hosts = found.setdefault(row.consumer_id, {})
            hosts[row.host] = hosts.get(row.host, frozenset()) | {row.uuid}
    return found
