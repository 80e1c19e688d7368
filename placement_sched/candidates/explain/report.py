"""Report what each constraint of a search removed, and which fewest constraints block it.

Where one provider serves the request, one statement evaluates the search's own conditions for each
provider; one more for each constraint on amounts reads the numbers of those rejected that are
shown. Where trees, sharing providers or several groups combine, ``trees`` has the report.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from sqlalchemy import Connection, func, select

from placement_sched.candidates.constraints import ROOT_REQUIRED, Constraint
from placement_sched.candidates.explain import mirrored, single_provider, stages, trees
from placement_sched.candidates.explain.changes import changes_of
from placement_sched.candidates.explain.memory import ExplanationMemory
from placement_sched.candidates.explain.near_misses import explanation_budget, near_misses
from placement_sched.candidates.explain.single_provider import CheckedProviders
from placement_sched.candidates.from_mirror import MirroredProviders
from placement_sched.candidates.search import Search
from placement_sched.candidates.single_provider import ids_of
from placement_sched.db.tables import resource_providers
from placement_sched.model.results import stages as reports
from placement_sched.store.placement import capacity


def explain(
    run: trees.SearchRun, view: reports.View, memory: ExplanationMemory
) -> reports.CandidatesReport:
    """Return what every constraint of a search removed; each tree counts for the first only.

    Further trees than were found, which serve the request as well, were cut by the limit, which is
    then the last step. A root without a compute node is named by its own name.
    """
    if run.search.is_single:
        return _explain_single(run, view, memory)
    return trees.explain_trees(run, view)


def each_refusal(
    run: trees.SearchRun, roots: Collection[str], memory: ExplanationMemory
) -> dict[str, tuple[reports.StepReport, ...]]:
    """Return each step that rejects a tree, by the uuid of its root, for those rejected.

    The steps are those of :func:`explain`, evaluated for these trees alone, also those after the
    first that rejects a tree. The last one is ``limit`` where no other rejects it.
    """
    out = set(roots).difference(request.root_uuid for request in run.found.requests)
    if not out:
        return {}
    if not run.search.is_single:
        return trees.tree_rejections(run, out)
    rejected = _all_unmet(run, memory, out).rejected
    uuids = {key: uuid for uuid, key in ids_of(run.connection, out).items()}
    steps: dict[str, list[reports.StepReport]] = {uuid: [] for uuid in out}
    named = _named_constraints(run.search)
    refused = [
        (constraint, [one for one in rejected if position in one.unmet and one.id in uuids])
        for position, (constraint, _) in enumerate(named)
    ]
    reasons = _reasons(run, refused, with_changes=True)
    for (_, (kind, detail)), (_, some), why in zip(named, refused, reasons, strict=True):
        for one, reason in zip(some, why, strict=True):
            steps[uuids[one.id]].append(reports.StepReport(kind, detail, 1, 0, (reason,)))
    return run.or_limit(steps)


def _named_constraints(search: Search) -> list[tuple[Constraint, tuple[str, str]]]:
    (group,) = search.query.groups
    return [
        (one, (one.kind, stages.detail_of(one, "" if one.kind == ROOT_REQUIRED else group.suffix)))
        for one in search.constraints()
    ]


def _explain_single(
    run: trees.SearchRun, view: reports.View, memory: ExplanationMemory
) -> reports.CandidatesReport:
    search = run.search
    found, constraints = len(run.found.requests), _named_constraints(search)
    providers, rejected = _first_unmet(run, memory)
    if len(rejected) >= providers or not found:
        # None is left: the nearest misses need every constraint that each does not meet.
        providers, rejected = _all_unmet(run, memory)
    by_first: list[list[single_provider.RejectedProvider]] = [[] for _ in constraints]
    for one in rejected:
        by_first[one.unmet[0]].append(one)
    listed = [
        (constraint, trees.shown(here, view))
        for (constraint, _), here in zip(constraints, by_first, strict=True)
    ]
    steps, left = [], providers
    for (_, (kind, detail)), here, reasons in zip(
        constraints, by_first, _reasons(run, listed), strict=True
    ):
        before, left = left, left - len(here)
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


def first_steps(
    run: trees.SearchRun, memory: ExplanationMemory
) -> list[tuple[tuple[str, str], list[str]]]:
    """Return each step of :func:`explain` that removes nodes, by kind and detail, with these.

    They are uuids; there are no reasons, which are what costs most of an explanation.
    """
    known = memory.names.current(run.connection)
    if run.search.is_single and isinstance(run.source, MirroredProviders):
        names = [name for _, name in _named_constraints(run.search)]
        serving = [provider.id for provider in run.found.providers]
        unmet = mirrored.first_unmet_uuids(run.source, run.search, serving)
        return [
            (names[position], [uuid for uuid in some if uuid in known])
            for position, some in unmet.items()
        ]
    uuids = {called: uuid for uuid, called in known.items()}
    if run.search.is_single:
        names = [name for _, name in _named_constraints(run.search)]
        _, rejected = (_first_unmet if run.found.requests else _all_unmet)(run, memory)
        named = [(names[one.unmet[0]], one.host, one.node) for one in rejected]
    else:
        steps = trees.explain_trees(run, reports.EVERYTHING).steps
        named = [
            ((step.constraint, step.detail), one.host, one.node)
            for step in steps
            for one in step.rejected
        ]
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, host, node in named:
        if (uuid := uuids.get((host, node))) is not None:
            found[name].append(uuid)
    return list(found.items())


def _first_unmet(run: trees.SearchRun, memory: ExplanationMemory) -> CheckedProviders:
    """Return how many providers there are, and those rejected with the first unmet constraint.

    Of a search that found nothing none is checked: all unmet constraints are to be asked for.
    """
    if not run.found.requests:
        return CheckedProviders(0, [])
    if isinstance(run.source, MirroredProviders):
        serving = [provider.id for provider in run.found.providers]
        return mirrored.first_unmet(run.connection, run.source, run.search, serving, memory.names)
    rejected = single_provider.first_unmet(run.connection, run.search, run.found, memory.capacity)
    return CheckedProviders(_number(run.connection), rejected)


def _all_unmet(
    run: trees.SearchRun, memory: ExplanationMemory, only: Collection[str] | None = None
) -> CheckedProviders:
    if isinstance(run.source, MirroredProviders):
        return mirrored.all_unmet(run.connection, run.source, run.search, memory.names, only)
    rejected = single_provider.all_unmet(run.connection, run.search, only)
    return CheckedProviders(_number(run.connection) if only is None else 0, rejected)


def _number(connection: Connection) -> int:
    return connection.scalar(select(func.count()).select_from(resource_providers)) or 0


def _reasons(
    run: trees.SearchRun,
    rejected: Sequence[tuple[Constraint, Sequence[single_provider.RejectedProvider]]],
    *,
    with_changes: bool = False,
) -> list[tuple[reports.Rejected, ...]]:
    """Return by constraint why each provider does not meet it; at most one statement for amounts.

    ``with_changes`` says as well what would have to change.
    """
    places = {
        (one.id, constraint.resource_class_id)
        for constraint, some in rejected
        if constraint.resource_class
        for one in some
    }
    rooms: Mapping[capacity.InventoryIds, capacity.UsedInventory] = {}
    if places and isinstance(run.source, MirroredProviders):
        rooms = mirrored.rooms(run.source, run.search, places)
    elif places:
        rooms = capacity.read(run.connection, places)

    def why(constraint: Constraint, one: single_provider.RejectedProvider) -> reports.Rejected:
        room = rooms.get((one.id, constraint.resource_class_id))
        reason = constraint.refused
        if constraint.resource_class:
            reason = stages.shortage(constraint, room)
        found = changes_of(constraint, [room] if room else ()) if with_changes else ()
        return reports.Rejected(one.host, one.node, reason, found)

    return [tuple([why(constraint, one) for one in some]) for constraint, some in rejected]


def _nearest(
    names: Sequence[tuple[str, str]], rejected: Iterable[single_provider.RejectedProvider]
) -> reports.NearMisses:
    """Return the smallest sets of constraints that are all that a provider does not meet.

    Only without all of them is it found, so that no other set can be smaller.
    """
    alike: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for one in rejected:
        alike[one.unmet].append(one.id)
    least = min(map(len, alike), default=0)
    return reports.NearMisses.of(
        reports.NearMiss.of([names[position] for position in some], len(ids), tuple(ids))
        for some, ids in sorted(alike.items())
        if len(some) == least
    )


def near_misses_of(run: trees.SearchRun, memory: ExplanationMemory) -> reports.NearMisses:
    """Return the nearest misses among the trees without candidates, whether or not others have.

    None of a search in trees that a limit cut: which of those without candidates would serve as
    they are is not known.
    """
    taken = {request.root_uuid for request in run.found.requests}
    if run.search.is_single:
        names = [name for _, name in _named_constraints(run.search)]
        return _nearest(names, _all_unmet(run, memory).rejected)
    if run.found.limited:
        return reports.NearMisses()
    checked = stages.checked_trees(run.connection, run.search)
    out = [tree for tree in checked if tree.uuid not in taken]
    return near_misses(run.connection, run.search, out, explanation_budget(run.settings, len(out)))
