"""What each constraint of a search removed, and which fewest constraints stand in the way.

Of lone providers, one statement asks which of the search's own conditions each of them meets; one
more for each constraint on amounts fetches the numbers of those refused that are to be shown.
Where trees, sharing providers or several groups combine, ``explain_trees`` tells.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from placement_sched.candidates.constraints import ROOT_REQUIRED, Constraint
from placement_sched.candidates.explain_trees import explain_trees
from placement_sched.candidates.search import Search
from placement_sched.candidates.shortages import shortage, stocks_of
from placement_sched.candidates.sieve import detail_of
from placement_sched.config.settings import Settings
from placement_sched.db.tables import compute_nodes, resource_providers
from placement_sched.model.candidate import Candidates
from placement_sched.model.report import (
    CandidatesReport,
    NearMiss,
    NearMisses,
    Rejected,
    StepReport,
    View,
)


@dataclass(frozen=True, slots=True)
class _Verdict:
    """A provider, and the positions of the constraints that it does not meet."""

    id: int
    host: str
    node: str
    misses: tuple[int, ...]


def explain(
    connection: Connection, search: Search, found: Candidates, settings: Settings, view: View
) -> CandidatesReport:
    """Return what every constraint of ``search`` did, each tree charged to the first only.

    ``found`` is what the plain run returned; trees that serve the request beyond were cut by the
    limit, which is then the last step. A root that is no compute node is told by its name.
    """
    if search.is_alone:
        return _explain_alone(connection, search, len(found.requests), view)
    return explain_trees(connection, search, found, settings, view)


def _explain_alone(
    connection: Connection, search: Search, found: int, view: View
) -> CandidatesReport:
    constraints = search.constraints
    (group,) = search.query.groups
    terms = [
        (one.kind, detail_of(one, "" if one.kind == ROOT_REQUIRED else group.suffix))
        for one in constraints
    ]
    verdicts = _judge(connection, constraints)
    charged = _charge(verdicts, len(constraints))
    steps = []
    before = len(verdicts)
    for constraint, (kind, detail), refused in zip(constraints, terms, charged, strict=True):
        after = before - len(refused)
        steps.append(
            StepReport(
                constraint=kind,
                detail=detail,
                before=before,
                after=after,
                rejected=_told(connection, constraint, _listed(refused, view)),
            )
        )
        before = after
    if found < before:
        steps.append(StepReport(constraint="limit", detail=str(found), before=before, after=found))
    return CandidatesReport(
        query=search.query.querystring(),
        providers=len(verdicts),
        hosts=found,
        steps=tuple(steps),
        nearest_misses=NearMisses() if before else _nearest(terms, verdicts),
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


def _listed(refused: Sequence[_Verdict], view: View) -> Sequence[_Verdict]:
    shown = [verdict for verdict in refused if view.shows(verdict.host, verdict.node)]
    return shown[: view.max_rejected or None]


def _told(
    connection: Connection, constraint: Constraint, refused: Sequence[_Verdict]
) -> tuple[Rejected, ...]:
    if constraint.resource_class:
        stocks = stocks_of(connection, constraint, [verdict.id for verdict in refused])
        reasons = [shortage(constraint, stocks, verdict.id) for verdict in refused]
    else:
        reasons = [constraint.refused] * len(refused)
    return tuple(
        Rejected(verdict.host, verdict.node, reason)
        for verdict, reason in zip(refused, reasons, strict=True)
    )


def _nearest(terms: Sequence[tuple[str, str]], verdicts: Sequence[_Verdict]) -> NearMisses:
    """Return the smallest sets of constraints that keep providers out, and nothing else does.

    A provider is let in by no less than all that it misses, so that no other set can be one.
    """
    counts = Counter(verdict.misses for verdict in verdicts)
    least = min(map(len, counts), default=0)
    return NearMisses.of(
        NearMiss.of([terms[position] for position in some], count)
        for some, count in sorted(counts.items())
        if len(some) == least
    )
