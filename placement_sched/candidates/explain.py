"""What each constraint of a search removed, and which constraints alone stand in the way.

One statement asks of every provider which of the search's own conditions it meets; one more for
each constraint on amounts fetches the numbers of those refused that are to be shown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, func, select

from placement_sched.candidates.constraints import Constraint
from placement_sched.candidates.search import Search
from placement_sched.db.batches import batches
from placement_sched.db.tables import allocations, compute_nodes, inventories, resource_providers
from placement_sched.model.inventory import Inventory, why_not
from placement_sched.model.report import CandidatesReport, NearMiss, Rejected, StepReport, View


@dataclass(frozen=True, slots=True)
class _Verdict:
    """A provider, and the positions of the constraints that it does not meet."""

    id: int
    host: str
    node: str
    misses: tuple[int, ...]


def explain(connection: Connection, search: Search, found: int, view: View) -> CandidatesReport:
    """Return what every constraint of ``search`` did, each provider charged to the first only.

    ``found`` is how many candidates the plain run returned; those that fit beyond were cut by the
    limit, which is then the last step. A provider that is no compute node is told by its name.
    """
    verdicts = _judge(connection, search.constraints)
    charged = _charge(verdicts, len(search.constraints))
    steps = []
    before = len(verdicts)
    for constraint, refused in zip(search.constraints, charged, strict=True):
        after = before - len(refused)
        steps.append(
            StepReport(
                constraint=constraint.kind,
                detail=constraint.detail,
                before=before,
                after=after,
                rejected=_told(connection, constraint, _listed(refused, view)),
            )
        )
        before = after
    if found < before:
        steps.append(_cut(before, found))
    return CandidatesReport(
        query=search.query.querystring(),
        providers=len(verdicts),
        hosts=found,
        steps=tuple(steps),
        nearest_misses=() if before else _nearest(search.constraints, verdicts),
    )


def _judge(connection: Connection, constraints: Sequence[Constraint]) -> list[_Verdict]:
    flags = [constraint.condition.label(f"met_{i}") for i, constraint in enumerate(constraints)]
    rows = connection.execute(
        select(
            resource_providers.c.id,
            func.coalesce(compute_nodes.c.host, resource_providers.c.name),
            func.coalesce(compute_nodes.c.hypervisor_hostname, resource_providers.c.name),
            *flags,
        ).outerjoin(compute_nodes, compute_nodes.c.uuid == resource_providers.c.uuid)
    )
    found = [
        _Verdict(key, host or "", node or "", tuple(i for i, met in enumerate(met) if not met))
        for key, host, node, *met in rows
    ]
    return sorted(found, key=lambda verdict: (verdict.host, verdict.node))


def _charge(verdicts: Sequence[_Verdict], constraints: int) -> list[list[_Verdict]]:
    """Return, for each constraint, the providers that it is the first to refuse."""
    charged: list[list[_Verdict]] = [[] for _ in range(constraints)]
    for verdict in verdicts:
        if verdict.misses:
            charged[verdict.misses[0]].append(verdict)
    return charged


def _cut(fitting: int, found: int) -> StepReport:
    return StepReport(constraint="limit", detail=str(found), before=fitting, after=found)


def _listed(refused: Sequence[_Verdict], view: View) -> Sequence[_Verdict]:
    shown = [verdict for verdict in refused if view.shows(verdict.host, verdict.node)]
    return shown[: view.max_rejected or None]


def _told(
    connection: Connection, constraint: Constraint, refused: Sequence[_Verdict]
) -> tuple[Rejected, ...]:
    if constraint.resource_class and refused:
        reasons = _shortages(connection, constraint, [verdict.id for verdict in refused])
    else:
        reasons = {verdict.id: constraint.refused for verdict in refused}
    return tuple(Rejected(verdict.host, verdict.node, reasons[verdict.id]) for verdict in refused)


def _shortages(
    connection: Connection, constraint: Constraint, ids: Sequence[int]
) -> dict[int, str]:
    """Return what each provider has of the constraint's class, against what was asked."""
    found: dict[int, tuple[Inventory, int]] = {}
    for batch in batches(ids):
        for row in connection.execute(_stock(constraint.resource_class_id, batch)):
            found[row.resource_provider_id] = (_inventory(constraint, row), int(row.used))
    return {
        key: f"{constraint.resource_class}: {_shortage(found, key, constraint.amount)}"
        for key in ids
    }


def _shortage(found: Mapping[int, tuple[Inventory, int]], key: int, asked: int) -> str:
    inventory, used = found.get(key, (None, 0))
    return why_not(inventory, used, asked)


def _stock(class_id: int, ids: Sequence[int]) -> Select[Any]:
    return (
        select(inventories, func.coalesce(func.sum(allocations.c.used), 0).label("used"))
        .outerjoin(
            allocations,
            and_(
                allocations.c.resource_provider_id == inventories.c.resource_provider_id,
                allocations.c.resource_class_id == class_id,
            ),
        )
        .where(
            inventories.c.resource_class_id == class_id,
            inventories.c.resource_provider_id.in_(ids),
        )
        .group_by(*inventories.c)
    )


def _inventory(constraint: Constraint, row: Row[Any]) -> Inventory:
    return Inventory(
        resource_class=constraint.resource_class,
        total=row.total,
        reserved=row.reserved,
        min_unit=row.min_unit,
        max_unit=row.max_unit,
        step_size=row.step_size,
        allocation_ratio=row.allocation_ratio,
    )


def _nearest(
    constraints: Sequence[Constraint], verdicts: Sequence[_Verdict]
) -> tuple[NearMiss, ...]:
    """Return the constraints that alone keep providers out, the one that keeps most first."""
    alone = [0] * len(constraints)
    for verdict in verdicts:
        if len(verdict.misses) == 1:
            alone[verdict.misses[0]] += 1
    found = [
        NearMiss(constraint.kind, constraint.detail, count)
        for constraint, count in zip(constraints, alone, strict=True)
        if count
    ]
    return tuple(sorted(found, key=lambda miss: -miss.hosts))
