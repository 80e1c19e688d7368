"""Report what each constraint of a search removed, and which fewest constraints block it.

Where one provider serves the request, one statement evaluates the search's own conditions for each
provider; one more for each constraint on amounts reads the numbers of those rejected that are
shown. Where trees, sharing providers or several groups combine, ``trees`` has the report.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from sqlalchemy import Connection, func, select

from placement_sched.candidates.constraints import ROOT_REQUIRED, Constraint
from placement_sched.candidates.explain import single_provider, stages, trees
from placement_sched.candidates.explain.single_provider import CapacityMemory
from placement_sched.candidates.search import Search
from placement_sched.candidates.single_provider import ids_of
from placement_sched.db.tables import resource_providers
from placement_sched.model.placement.candidate import Candidates
from placement_sched.model.results import stages as reports
from placement_sched.settings import Settings


def explain(
    connection: Connection,
    search: Search,
    found: Candidates,
    settings: Settings,
    view: reports.View,
    memory: CapacityMemory,
) -> reports.CandidatesReport:
    """Return what every constraint of ``search`` removed; each tree counts for the first only.

    ``found`` is the result of the search; further trees that serve the request were cut by the
    limit, which is then the last step. A root without a compute node is named by its own name.
    """
    run = trees.SearchRun(connection, search, found, settings)
    return (
        _explain_single(run, view, memory) if search.is_single else trees.explain_trees(run, view)
    )


def each_refusal(
    connection: Connection,
    search: Search,
    found: Candidates,
    settings: Settings,
    roots: Collection[str],
) -> dict[str, tuple[reports.StepReport, ...]]:
    """Return each step that rejects a tree, by the uuid of its root, for those rejected.

    The steps are those of :func:`explain`, evaluated for these trees alone, also those after the
    first that rejects a tree. The last one is ``limit`` where no other rejects it.
    """
    out = set(roots).difference(request.root_uuid for request in found.requests)
    if not out:
        return {}
    run = trees.SearchRun(connection, search, found, settings)
    if not search.is_single:
        return trees.tree_rejections(run, out)
    rejected = single_provider.all_unmet(connection, search, out)
    uuids = {key: uuid for uuid, key in ids_of(connection, out).items()}
    steps: dict[str, list[reports.StepReport]] = {uuid: [] for uuid in out}
    for position, (constraint, (kind, detail)) in enumerate(_named_constraints(search)):
        here = [one for one in rejected if position in one.unmet and one.id in uuids]
        for one, reason in zip(here, _reasons(connection, constraint, here), strict=True):
            steps[uuids[one.id]].append(reports.StepReport(kind, detail, 1, 0, (reason,)))
    return run.or_limit(steps)


def _named_constraints(search: Search) -> list[tuple[Constraint, tuple[str, str]]]:
    (group,) = search.query.groups
    return [
        (one, (one.kind, stages.detail_of(one, "" if one.kind == ROOT_REQUIRED else group.suffix)))
        for one in search.constraints()
    ]


def _explain_single(
    run: trees.SearchRun, view: reports.View, memory: CapacityMemory
) -> reports.CandidatesReport:
    connection, search = run.connection, run.search
    found, constraints = len(run.found.requests), _named_constraints(search)
    providers = connection.scalar(select(func.count()).select_from(resource_providers)) or 0
    rejected = single_provider.first_unmet(connection, search, run.found, memory) if found else []
    if len(rejected) >= providers or not found:
        # None is left: the nearest misses need every constraint that each does not meet.
        rejected = single_provider.all_unmet(connection, search)
    by_first: list[list[single_provider.RejectedProvider]] = [[] for _ in constraints]
    for one in rejected:
        by_first[one.unmet[0]].append(one)
    steps, left = [], providers
    for (constraint, (kind, detail)), here in zip(constraints, by_first, strict=True):
        before, left = left, left - len(here)
        reasons = tuple(_reasons(connection, constraint, trees.shown(here, view)))
        steps.append(reports.StepReport(kind, detail, before, left, reasons))
    if found < left:
        steps.append(run.limit_step(left))
    names = [name for _, name in constraints]
    return reports.CandidatesReport(
        query=search.query.querystring(),
        providers=providers,
        hosts=found,
        steps=tuple(steps),
        nearest_misses=reports.NearMisses() if left else _nearest(names, rejected),
    )


def _reasons(
    connection: Connection,
    constraint: Constraint,
    rejected: Sequence[single_provider.RejectedProvider],
) -> list[reports.Rejected]:
    if not constraint.resource_class:
        return [reports.Rejected(one.host, one.node, constraint.refused) for one in rejected]
    rooms = stages.inventory_of(connection, constraint, [one.id for one in rejected])
    return [
        reports.Rejected(one.host, one.node, stages.shortage(constraint, rooms.get(one.id)))
        for one in rejected
    ]


def _nearest(
    names: Sequence[tuple[str, str]], rejected: Iterable[single_provider.RejectedProvider]
) -> reports.NearMisses:
    """Return the smallest sets of constraints that are all that a provider does not meet.

    Only without all of them is it found, so that no other set can be smaller.
    """
    counts = Counter(one.unmet for one in rejected)
    least = min(map(len, counts), default=0)
    return reports.NearMisses.of(
        reports.NearMiss.of([names[position] for position in some], count)
        for some, count in sorted(counts.items())
        if len(some) == least
    )
