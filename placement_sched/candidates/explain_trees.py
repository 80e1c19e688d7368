"""What each constraint of a search removed where trees, sharing providers or groups combine.

Counted are trees. Group by group and constraint by constraint, each slot of the request loses the
providers that do not meet it; a tree is charged to the first constraint that leaves a slot without
any. Where every slot has a provider and they still do not serve together, that is the step
``combination``. The conditions, trees and combinations are those of the plain search.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from placement_sched.candidates.allowance import allowance
from placement_sched.candidates.combine import Budget, Rules, Tree, can_serve, verdicts
from placement_sched.candidates.narrow import ids_of
from placement_sched.candidates.near_misses import near_misses
from placement_sched.candidates.search import Search, forest_of, limiting_option
from placement_sched.candidates.shortages import shortage, stocks_of
from placement_sched.candidates.sieve import Grove, Member, Sieve, groves_of, sieves_of
from placement_sched.candidates.trees import read_trees
from placement_sched.config.settings import Settings
from placement_sched.errors import TooComplex
from placement_sched.model.candidate import Candidates
from placement_sched.model.report import CandidatesReport, NearMisses, Rejected, StepReport, View
from placement_sched.store.capacity import Room

#: How many providers of a tree a reason names.
_NAMED = 3
_TOGETHER = "no providers serve all that is asked together"
_ELSEWHERE = "only providers that share with it serve the request, told with another tree already"


@dataclass(frozen=True, slots=True)
class _Whole:
    """A tree that has a provider for each slot, as it is sifted and as it is combined."""

    grove: Grove
    tree: Tree


def explain_trees(
    connection: Connection, search: Search, found: Candidates, settings: Settings, view: View
) -> CandidatesReport:
    """Return what every constraint of ``search`` did, each tree charged to the first only."""
    standing = groves = groves_of(connection, search)
    steps: list[StepReport] = []
    for sieve in sieves_of(search):
        kept = {grove.root.id: left for grove in standing if (left := grove.sifted(sieve))}
        gone = _listed([grove for grove in standing if grove.root.id not in kept], view)
        steps.append(
            _step(
                sieve.kind, sieve.detail, len(standing), len(kept), _told(connection, sieve, gone)
            )
        )
        standing = list(kept.values())
    taken = {request.root_uuid for request in found.requests}
    whole = _whole(connection, search, standing)
    served = {root for root, one in whole.items() if one.grove.uuid in taken}
    if found.limited:
        served |= _serving_too(whole, served, search, settings)
    if len(served) < len(standing):
        gone = _listed([grove for grove in standing if grove.root.id not in served], view)
        told = _told_together(whole, gone, search, settings)
        steps.append(_step("combination", _rules_of(search), len(standing), len(served), told))
    if len(taken) < len(served):
        steps.append(limit_step(search, found, settings, len(served)))
    return CandidatesReport(
        query=search.query.querystring(),
        providers=len(groves),
        hosts=len(taken),
        steps=tuple(steps),
        nearest_misses=NearMisses()
        if taken
        else near_misses(connection, search, groves, allowance(settings, len(groves))),
    )


def each_refusal_of_trees(
    connection: Connection,
    search: Search,
    found: Candidates,
    settings: Settings,
    roots: Collection[str],
) -> dict[str, tuple[StepReport, ...]]:
    """Return each step that keeps these trees out, by the uuid of the root.

    A tree that a constraint leaves without a provider goes on as it was before: what comes after
    is evaluated as if that constraint were not asked. How providers combine is asked of trees
    only that every constraint leaves providers.
    """
    groves = groves_of(connection, search, list(ids_of(connection, roots).values()))
    steps: dict[str, list[StepReport]] = {grove.uuid: [] for grove in groves}
    standing = groves
    for sieve in sieves_of(search):
        left = [(grove, grove.sifted(sieve)) for grove in standing]
        gone = [grove for grove, kept in left if kept is None]
        for grove, told in zip(gone, _told(connection, sieve, gone), strict=True):
            steps[grove.uuid].append(_step(sieve.kind, sieve.detail, 1, 0, [told]))
        standing = [kept or grove for grove, kept in left]
    whole = _whole(connection, search, [grove for grove in standing if not steps[grove.uuid]])
    served = _serving_too(whole, (), search, settings)
    gone = [one.grove for root, one in whole.items() if root not in served]
    for grove, told in zip(gone, _told_together(whole, gone, search, settings), strict=True):
        steps[grove.uuid].append(_step("combination", _rules_of(search), 1, 0, [told]))
    return {
        uuid: tuple(some) or (limit_step_of_one(search, found, settings),)
        for uuid, some in steps.items()
    }


def limit_step_of_one(search: Search, found: Candidates, settings: Settings) -> StepReport:
    """Return the step that cut a host which serves the request."""
    step = limit_step(search, found, settings, 1)
    if not found.limited:
        reason = "it changed while the request was evaluated; ask again"
    elif settings.placement.randomize_allocation_candidates:
        reason = (
            f"it fits, but is not among the {step.detail} hosts that were drawn at random; the "
            f"limit is set by {step.option}"
        )
    else:
        reason = (
            f"it fits, but is not among the first {step.detail} hosts, which alone are considered; "
            f"the limit is set by {step.option}"
        )
    return replace(step, before=1, after=0, rejected=(Rejected("", "", reason),))


def limit_step(search: Search, found: Candidates, settings: Settings, before: int) -> StepReport:
    """Return the step of the hosts that a limit cut out of so many that would serve."""
    after = len({request.root_uuid for request in found.requests})
    option = limiting_option(search.query.limit, settings) if found.limited else None
    return StepReport(
        constraint="limit", detail=str(after), before=before, after=after, option=option
    )


def _step(
    kind: str, detail: str, before: int, after: int, rejected: Iterable[Rejected] = ()
) -> StepReport:
    return StepReport(
        constraint=kind, detail=detail, before=before, after=after, rejected=tuple(rejected)
    )


def _listed(gone: Iterable[Grove], view: View) -> list[Grove]:
    shown = [grove for grove in gone if view.shows(grove.host, grove.node)]
    return shown[: view.max_rejected or None]


def _told(connection: Connection, sieve: Sieve, gone: Sequence[Grove]) -> Iterator[Rejected]:
    stocks: dict[int, Room] = {}
    if sieve.constraint.resource_class and gone:
        ids = {member.id for grove in gone for member in grove.members(sieve)}
        stocks = stocks_of(connection, sieve.constraint, sorted(ids))
    for grove in gone:
        yield Rejected(grove.host, grove.node, _reason(sieve, grove, stocks))


def _reason(sieve: Sieve, grove: Grove, stocks: Mapping[int, Room]) -> str:
    """Return why none of the providers that a tree had left meets a constraint.

    Amounts are told of the providers that have any of the class; one that is the root, or the
    only one left, needs no more words than a host without children.
    """
    if sieve.of_root:
        return sieve.constraint.refused
    left = grove.members(sieve)
    if not sieve.constraint.resource_class:
        several = f"each of {len(left)} providers: " if len(left) > 1 else ""
        return several + sieve.constraint.refused
    having = [member for member in left if member.id in stocks] or list(left[:1])
    told = [_amount(sieve, grove, member, stocks) for member in having[:_NAMED]]
    more = len(having) - len(told)
    return "; ".join(told) + (f"; and {more} more" if more else "")


def _amount(sieve: Sieve, grove: Grove, member: Member, stocks: Mapping[int, Room]) -> str:
    told = shortage(sieve.constraint, stocks, member.id)
    at_root = member.id == grove.root.id or member.id not in stocks
    return told if at_root else f"{told} on {member.name}"


def _whole(connection: Connection, search: Search, standing: Sequence[Grove]) -> dict[int, _Whole]:
    """Return the trees left after all constraints, by the id of the root.

    One that was changed since it was sifted, and lacks a provider for a slot now, is not there.
    """
    roots = [grove.root.id for grove in standing]
    # Not bounded: no more is read than was looked at already, when the trees were sifted.
    trees = read_trees(connection, forest_of(search), roots, Budget(0), all_rooms=True).trees
    return {
        grove.root.id: _Whole(grove, trees[grove.root.id])
        for grove in standing
        if grove.root.id in trees
    }


def _serving_too(
    whole: Mapping[int, _Whole], served: Collection[int], search: Search, settings: Settings
) -> set[int]:
    """Return the roots of the trees that serve as well, but were cut by the limit.

    Where they take too long to try, the rest is counted with them: the limit kept them from being
    looked at.
    """
    rules = forest_of(search).rules
    budget = allowance(settings, len(whole))
    untried = {root: one.tree for root, one in whole.items() if root not in served}
    refused = set()
    try:
        for root, serves in verdicts(untried, rules, budget):
            if not serves:
                refused.add(root)
    except TooComplex:
        pass
    return {root for root in untried if root not in refused}


def _told_together(
    whole: Mapping[int, _Whole], gone: Sequence[Grove], search: Search, settings: Settings
) -> Iterator[Rejected]:
    rules, class_names = forest_of(search).rules, search.names.class_names
    for grove in gone:
        # Each has a share, so that a difficult tree leaves the others their reasons.
        budget = allowance(settings, len(gone), ways=len(gone))
        one = whole.get(grove.root.id)
        try:
            reason = "; ".join(_obstacles(one.tree, rules, class_names, budget)) if one else ""
        except TooComplex:
            reason = ""
        yield Rejected(grove.host, grove.node, reason or _TOGETHER)


def _obstacles(
    tree: Tree, rules: Rules, class_names: Mapping[int, str], budget: Budget
) -> Iterator[str]:
    """Yield each rule without which providers of the tree would serve together."""
    if can_serve(tree, rules, budget):
        yield _ELSEWHERE
        return
    if rules.isolate and can_serve(tree, replace(rules, isolate=False), budget):
        yield "not a provider for each group with a suffix (group_policy=isolate)"
    for subtree in rules.subtrees:
        others = tuple(other for other in rules.subtrees if other != subtree)
        if can_serve(tree, replace(rules, subtrees=others), budget):
            named = ",".join(rules.slots[slot].suffix for slot in subtree)
            yield f"no providers of one subtree (same_subtree={named})"
    for class_id in sorted({class_id for _, class_id in tree.rooms}):
        rest = {place: room for place, room in tree.rooms.items() if place[1] != class_id}
        if can_serve(replace(tree, rooms=rest), rules, budget):
            yield f"{class_names[class_id]}: {_crowd(tree, rules, class_id)}"
    if rules.trait_choices and can_serve(tree, replace(rules, trait_choices=()), budget):
        yield "no providers that have all required traits together"


def _crowd(tree: Tree, rules: Rules, class_id: int) -> str:
    """Return what the slots ask of a class, and what the providers have that could serve them."""
    asking = {
        slot: amount
        for slot, asked in enumerate(rules.slots)
        for of_class, amount in asked.amounts
        if of_class == class_id
    }
    options = {provider for slot in asking for provider in tree.options[slot]}
    free = sorted((tree.rooms[provider, class_id].free for provider in options), reverse=True)
    told = ", ".join(map(str, free[:_NAMED])) + (", ..." if len(free) > _NAMED else "")
    return f"{' + '.join(map(str, asking.values()))} asked, free on each provider: {told}"


def _rules_of(search: Search) -> str:
    query = search.query
    rules = ["group_policy=isolate"] if query.isolates else []
    rules += [f"same_subtree={','.join(suffixes)}" for suffixes in query.same_subtrees]
    return " ".join(rules)
