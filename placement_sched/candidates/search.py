"""The allocation-candidates search, from top to bottom.

names -> constraints -> single providers, or trees -> combinations -> allocation requests

A request of one group in a cloud of providers without trees is answered by a single question; any
other is combined tree by tree, or for all trees of a kind at once, with the same constraints.
Summaries of the providers found are made by ``summaries``, since the scheduler needs none;
``explain`` reports what each constraint removed.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import repeat
from random import Random

from placement_sched.candidates.batches import CandidateBatches
from placement_sched.candidates.combine import Budget
from placement_sched.candidates.providers import ProviderSource
from placement_sched.candidates.request import ResolvedNames, SlotGroup, slots_of, tree_search
from placement_sched.candidates.trees import TreeReader
from placement_sched.config.settings import Settings
from placement_sched.errors import TooComplex
from placement_sched.model import candidates_query
from placement_sched.model.candidates_query import (
    AllocationRequest,
    Candidates,
    CandidatesQuery,
    Layout,
)


@dataclass(frozen=True, slots=True)
class Search:
    """A query with its names resolved, ready to be searched for or explained."""

    query: CandidatesQuery
    names: ResolvedNames

    @property
    def is_single(self) -> bool:
        """Return whether one provider serves the request: one group, and no provider in a tree."""
        return self.query.is_plain and self.names.topology.flat


def prepare(source: ProviderSource, query: CandidatesQuery) -> Search:
    """Return the search for ``query``; raises :class:`UnknownNames` for a class or trait."""
    return Search(query, source.resolve(query))


def find(
    source: ProviderSource,
    search: Search,
    settings: Settings,
    random: Random,
    *,
    one_of_a_tree: bool = False,
) -> Candidates:
    """Return the candidates of a search: the first by provider id, or a fair sample.

    ``one_of_a_tree`` leaves out candidates with several providers of one tree, which callers
    before microversion 1.29 would not understand. Raises :class:`TooComplex` for more combinations
    or memberships than ``[placement] allocation_candidates_budget`` and ``max_member_of`` allow.
    """
    _check_memberships(search, settings)
    limit = effective_limit(search.query.limit, settings)
    sampling = random if settings.placement.randomize_allocation_candidates else None
    if search.is_single:
        return _find_single(source, search, limit, sampling)
    in_turn = settings.placement.allocation_candidates_generation_strategy == "breadth-first"
    reader = _reader(source, search, settings, one_of_a_tree=one_of_a_tree)
    return _find_in_trees(search, reader, limit, in_turn=in_turn, random=sampling)


def find_on(
    source: ProviderSource, search: Search, settings: Settings, roots: Collection[str]
) -> Candidates:
    """Return the candidates on the trees of these roots, as :func:`find` does without a limit.

    Of a tree with very many, only as many as ``[scheduler] max_placement_results`` are made.
    """
    if search.is_single:
        serving = source.serving_of(search.query, search.names, source.ids_of(roots).values())
        return _single_candidates(search, serving, limit=None)
    only = sorted(source.ids_of(roots).values())
    most = settings.scheduler.max_placement_results
    return _find_in_trees(search, _reader(source, search, settings), most, only=only)


def _reader(
    source: ProviderSource, search: Search, settings: Settings, *, one_of_a_tree: bool = False
) -> TreeReader:
    steps = settings.placement.allocation_candidates_budget
    budget = Budget(steps, settings.placement_database.read_timeout)
    trees = tree_search(search.query, search.names, one_of_a_tree=one_of_a_tree)
    return TreeReader(source, trees, budget)


def _check_memberships(search: Search, settings: Settings) -> None:
    groups = list(search.query.groups)
    if not search.is_single:
        groups = [one.group for one in slots_of(search.query, search.names)]
    number = sum(len(group.aggregates.member_of) for group in groups)
    most = settings.placement.max_member_of
    if number > most:
        raise TooComplex(
            f"The request has {number} sets of aggregates (member_of, for each class of the group "
            f"without suffix), more than [placement] max_member_of allows: {most}."
        )


def effective_limit(requested: int | None, settings: Settings) -> int | None:
    """Return the smaller of what the caller and the operator allow; None is without limit."""
    bound = settings.placement.max_allocation_candidates
    limits = [limit for limit in (requested, bound) if limit is not None and limit >= 0]
    return min(limits, default=None)


def limiting_option(requested: int | None, settings: Settings) -> str:
    """Return the option that sets the limit in effect, and where its value was overridden."""
    group, name = "scheduler", "max_placement_results"
    if requested is None or 0 <= settings.placement.max_allocation_candidates < requested:
        group, name = "placement", "max_allocation_candidates"
    source = settings.source_of_override(group, name)
    return f"[{group}] {name}" + (f" (set in {source})" if source else "")


def _find_single(
    source: ProviderSource, search: Search, limit: int | None, random: Random | None
) -> Candidates:
    if random is not None:
        found = source.sampled_alone(search.query, search.names, limit, random)
    else:
        found = source.serving_alone(search.query, search.names, limit)
    return _single_candidates(search, found, limit=limit)


def _single_candidates(
    search: Search, providers: tuple[candidates_query.CandidateProvider, ...], *, limit: int | None
) -> Candidates:
    (group,) = search.query.groups
    layout = Layout(amounts=(dict(group.resources),), mappings={group.suffix: (0,)})
    uuids, roots = zip([one.uuid for one in providers]), [one.root_uuid for one in providers]
    return Candidates(
        requests=tuple(map(AllocationRequest._make, zip(repeat(layout), uuids, roots))),
        providers=providers,
        limited=limit is not None and len(providers) >= limit,
    )


def _find_in_trees(
    search: Search,
    reader: TreeReader,
    limit: int | None,
    *,
    in_turn: bool = False,
    random: Random | None = None,
    only: Sequence[int] | None = None,
) -> Candidates:
    found = CandidateBatches(
        reader=reader,
        layout_of=_Layouts(search, reader.search.slots),
        limit=limit,
        in_turn=in_turn,
        random=random,
        only=only,
    )
    found.run()
    whole = not search.names.topology.sharing
    providers, trees = reader.source.describe(found.serving, whole=whole)
    return Candidates(
        requests=tuple(found.requests), providers=providers, limited=found.lacking == 0, trees=trees
    )


class _Layouts:
    """The layouts of a search, each made once: an answer has few of them for many requests."""

    def __init__(self, search: Search, slots: Sequence[SlotGroup]) -> None:
        self._class_names, self._slots = search.names.class_names, slots
        self._made: dict[tuple[int, ...], Layout] = {}

    def __call__(self, firsts: tuple[int, ...]) -> Layout:
        """Return the layout of combinations, by the first slot that has each slot's provider."""
        made = self._made.get(firsts)
        if made is None:
            made = self._made[firsts] = self._layout(firsts)
        return made

    def _layout(self, firsts: tuple[int, ...]) -> Layout:
        places = {first: place for place, first in enumerate(dict.fromkeys(firsts))}
        amounts: tuple[dict[str, int], ...] = tuple({} for _ in places)
        mappings: dict[str, dict[int, None]] = defaultdict(dict)
        for one, first in zip(self._slots, firsts, strict=True):
            place = places[first]
            mappings[one.slot.suffix][place] = None
            for class_id, amount in one.slot.amounts:
                name = self._class_names[class_id]
                amounts[place][name] = amounts[place].get(name, 0) + amount
        return Layout(amounts, {suffix: tuple(held) for suffix, held in mappings.items()})
