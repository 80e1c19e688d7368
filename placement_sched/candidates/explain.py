"""What each constraint of a search removed, and which fewest constraints stand in the way.

Of lone providers, one statement asks which of the search's own conditions each of them meets (see
``judging``); one more for each constraint on amounts fetches the numbers of those refused that are
to be shown. Where trees, sharing providers or several groups combine, ``explain_trees`` tells.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from sqlalchemy import Connection, func, select

from placement_sched.candidates.constraints import ROOT_REQUIRED, Constraint
from placement_sched.candidates.explain_trees import (
    each_refusal_of_trees,
    explain_trees,
    limit_step,
    limit_step_of_one,
)
from placement_sched.candidates.judging import Refused, all_misses, first_misses
from placement_sched.candidates.narrow import uuids_of
from placement_sched.candidates.roomy import Roomy
from placement_sched.candidates.search import Search
from placement_sched.candidates.shortages import shortage, stocks_of
from placement_sched.candidates.sieve import detail_of
from placement_sched.config.settings import Settings
from placement_sched.db.tables import resource_providers
from placement_sched.model.candidate import Candidates
from placement_sched.model.report import (
    CandidatesReport,
    NearMiss,
    NearMisses,
    Rejected,
    StepReport,
    View,
)


def explain(
    connection: Connection,
    search: Search,
    found: Candidates,
    settings: Settings,
    view: View,
    roomy: Roomy,
) -> CandidatesReport:
    """Return what every constraint of ``search`` did, each tree charged to the first only.

    ``found`` is what the plain run returned; trees that serve the request beyond were cut by the
    limit, which is then the last step. A root that is no compute node is told by its name.
    ``roomy`` remembers from one explanation to the next who has room.
    """
    if search.is_alone:
        return _explain_alone(connection, search, found, settings, view, roomy)
    return explain_trees(connection, search, found, settings, view)


def each_refusal(
    connection: Connection,
    search: Search,
    found: Candidates,
    settings: Settings,
    roots: Collection[str],
) -> dict[str, tuple[StepReport, ...]]:
    """Return each step that keeps a tree out, by the uuid of its root, of those that one does.

    The steps are those of :func:`explain`, evaluated for these trees alone: also those after the
    first that refuses a tree are told. The last one is ``limit`` where nothing else keeps it out.
    """
    out = set(roots).difference(request.root_uuid for request in found.requests)
    if not out:
        return {}
    if not search.is_alone:
        return each_refusal_of_trees(connection, search, found, settings, out)
    refused = all_misses(connection, search, out)
    uuids = uuids_of(connection, [one.id for one in refused])
    steps: dict[str, list[StepReport]] = {uuid: [] for uuid in out}
    for position, (constraint, (kind, detail)) in enumerate(
        zip(search.constraints, _terms(search), strict=True)
    ):
        here = [one for one in refused if position in one.misses]
        for one, told in zip(here, _told(connection, constraint, here), strict=True):
            step = StepReport(constraint=kind, detail=detail, before=1, after=0, rejected=(told,))
            steps[uuids[one.id]].append(step)
    return {
        uuid: tuple(some) or (limit_step_of_one(search, found, settings),)
        for uuid, some in steps.items()
    }


def _terms(search: Search) -> list[tuple[str, str]]:
    """Return kind and detail of each constraint of a search for lone providers."""
    (group,) = search.query.groups
    return [
        (one.kind, detail_of(one, "" if one.kind == ROOT_REQUIRED else group.suffix))
        for one in search.constraints
    ]


def _explain_alone(
    connection: Connection,
    search: Search,
    candidates: Candidates,
    settings: Settings,
    view: View,
    roomy: Roomy,
) -> CandidatesReport:
    found = len(candidates.requests)
    constraints = search.constraints
    terms = _terms(search)
    providers = connection.scalar(select(func.count()).select_from(resource_providers)) or 0
    everybody_refused = first_misses(connection, search, candidates, roomy) if found else []
    if len(everybody_refused) >= providers or not found:
        # Nobody is left: what stands in the way of each is all that they do not meet.
        everybody_refused = all_misses(connection, search)
    charged = _charge(everybody_refused, len(constraints))
    steps = []
    before = providers
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
        steps.append(limit_step(search, candidates, settings, before))
    return CandidatesReport(
        query=search.query.querystring(),
        providers=providers,
        hosts=found,
        steps=tuple(steps),
        nearest_misses=NearMisses() if before else _nearest(terms, everybody_refused),
    )


def _charge(refused: Iterable[Refused], constraints: int) -> list[list[Refused]]:
    """Return, for each constraint, the providers that it is the first to refuse."""
    charged: list[list[Refused]] = [[] for _ in range(constraints)]
    for one in refused:
        charged[one.misses[0]].append(one)
    return charged


def _listed(refused: Sequence[Refused], view: View) -> Sequence[Refused]:
    shown = [one for one in refused if view.shows(one.host, one.node)]
    return shown[: view.max_rejected or None]


def _told(
    connection: Connection, constraint: Constraint, refused: Sequence[Refused]
) -> tuple[Rejected, ...]:
    if constraint.resource_class:
        stocks = stocks_of(connection, constraint, [one.id for one in refused])
        reasons = [shortage(constraint, stocks, one.id) for one in refused]
    else:
        reasons = [constraint.refused] * len(refused)
    return tuple(
        Rejected(one.host, one.node, reason) for one, reason in zip(refused, reasons, strict=True)
    )


def _nearest(terms: Sequence[tuple[str, str]], refused: Iterable[Refused]) -> NearMisses:
    """Return the smallest sets of constraints that keep providers out, and nothing else does.

    A provider is let in by no less than all that it misses, so that no other set can be one.
    """
    counts = Counter(one.misses for one in refused)
    least = min(map(len, counts), default=0)
    return NearMisses.of(
        NearMiss.of([terms[position] for position in some], count)
        for some, count in sorted(counts.items())
        if len(some) == least
    )
