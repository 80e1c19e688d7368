"""Recorded instances that hold what they hold on other hosts, and claims without a record.

A host's tree is one whose root provider is a compute node. A provider that only shares what it has
with others is in no such tree, and says nothing about where an instance is.
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Select, func, select

from placement_sched.db.collations import is_same_uuid
from placement_sched.db.tables import (
    allocations,
    cells,
    compute_nodes,
    consumers,
    decision_places,
    decisions,
    instances,
    resource_providers,
)
from placement_sched.model.results.decision import SELECT, SELECTED
from placement_sched.store.invariants import times
from placement_sched.store.invariants.recorded import MAY_BE_CLAIMED

#: What is written within so long before a cell was last read, or later, may not be seen in the
#: records of its instances yet: nova writes both, and clocks differ.
LAG = timedelta(seconds=60)
_INSTANCES, _NODES, _HELD = instances.c, compute_nodes.c, allocations.c
_DECISIONS, _PLACES, _CONSUMERS = decisions.c, decision_places.c, consumers.c
_ROOTS = resource_providers.alias("roots")
#: nova moves a node of ironic to another nova-compute and leaves its instances recorded at the
#: first one: of these the node alone says where an instance is.
_BAREMETAL = '%"hypervisor_type":"ironic"%'


def elsewhere(connection: Connection, most: int) -> Iterator[Mapping[str, object]]:
    """Yield the instances of which all that they hold of hosts is on others than the recorded.

    At most ``most``, with the names of their sentence. An instance in a task may be on its way. One
    of a nova whose cells are read is named only where its allocations were written before its cell
    was read last: else its record may be about to change as well.
    """
    number = 0
    for row in connection.execute(_elsewhere()).mappings():
        if number == most:
            return
        if row["of_cells"] and not _is_read_since(row):
            continue
        number += 1
        yield {str(name): row[name] for name in ("instance", "host", "node", "there")}


def _is_read_since(row: Mapping[Any, Any]) -> bool:
    written, read = times.read(row["written"]), times.read(row["read_at"])
    return written is not None and read is not None and bool(written < read - LAG)


def _elsewhere() -> Select[Any]:
    at_home = sa.and_(
        sa.or_(_NODES.host == _INSTANCES.host, _NODES.report.like(_BAREMETAL)),
        sa.or_(_INSTANCES.node.is_(None), _NODES.hypervisor_hostname == _INSTANCES.node),
    )
    recorded = (_INSTANCES.uuid, _INSTANCES.host, _INSTANCES.node)
    written = func.max(func.coalesce(_HELD.updated_at, _HELD.created_at))
    provider = resource_providers.c
    return (
        select(
            _INSTANCES.uuid.label("instance"),
            _INSTANCES.host,
            _INSTANCES.node,
            func.min(_NODES.host).label("there"),
            func.count(cells.c.id).label("of_cells"),
            times.as_text(func.min(cells.c.read_at)).label("read_at"),
            times.as_text(written).label("written"),
        )
        .join(allocations, is_same_uuid(_HELD.consumer_id, _INSTANCES.uuid))
        .join(resource_providers, provider.id == _HELD.resource_provider_id)
        .join(_ROOTS, _ROOTS.c.id == provider.root_provider_id)
        .join(compute_nodes, is_same_uuid(_NODES.uuid, _ROOTS.c.uuid))
        .outerjoin(cells, cells.c.uuid == _NODES.cell_uuid)
        .where(_INSTANCES.host.is_not(None), _INSTANCES.task_state.is_(None))
        .group_by(*recorded)
        .having(func.sum(sa.case((at_home, 1), else_=0)) == 0)
    )


def unrecorded_claims() -> Select[Any]:
    """Return the instances that hold what a decision claimed for them, and have no record.

    A consumer that was made after the decision, or by a client in the same second, is not the one
    of its claim: the instance was deleted, and a client has allocated again for the same uuid.
    While the database of a nova's cell does not answer, records of its instances may be gone that
    it still has.
    """
    away = sa.exists().where(
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
            _DECISIONS.outcome == SELECTED,
            _DECISIONS.kind == SELECT,
            MAY_BE_CLAIMED,
            _INSTANCES.id.is_(None),
            sa.exists().where(is_same_uuid(_HELD.consumer_id, _PLACES.instance_uuid)),
            ~away,
        )
    )
