"""The allocation-candidates search, told top to bottom.

names -> constraints -> narrow, or trees -> combinations -> allocation requests

The question comes as a value and the answer is one. A request of one group in a cloud of lone
providers is narrowed by a single statement; any other is combined tree by tree, of the same
constraints. Summaries of the providers found are made by ``summaries``, since the scheduler has
no use for them; ``explain`` tells, of the very same constraints, what each of them removed.
"""

from collections.abc import Collection
from dataclasses import dataclass
from random import Random

from sqlalchemy import Connection, and_

from placement_sched.candidates.combine import Budget, Rules
from placement_sched.candidates.constraints import (
    PLAINLY,
    Constraint,
    Manner,
    all_of,
    constraints_of,
    root_constraints_of,
)
from placement_sched.candidates.forest import Forest
from placement_sched.candidates.gather import gather
from placement_sched.candidates.harvest import Harvest
from placement_sched.candidates.layouts import Layouts
from placement_sched.candidates.members import described, trees_of
from placement_sched.candidates.names import Names, resolve
from placement_sched.candidates.narrow import describe, ids_of, narrow, sample
from placement_sched.candidates.parts import Part, parts_of, serves_alone
from placement_sched.candidates.simplify import distinct_ties, least_sets
from placement_sched.candidates.sums import sums_of
from placement_sched.candidates.topology import Topology
from placement_sched.config.settings import Settings
from placement_sched.db.among import among
from placement_sched.db.tables import resource_providers
from placement_sched.errors import TooComplex
from placement_sched.model.candidate import (
    AllocationRequest,
    CandidateProvider,
    Candidates,
    Layout,
    Usages,
)
from placement_sched.model.query import CandidatesQuery, RequestGroup


@dataclass(frozen=True, slots=True)
class Search:
    """A question made ready, to be asked plainly or explained."""

    query: CandidatesQuery
    names: Names

    @property
    def topology(self) -> Topology:
        """Return which shapes of providers there are."""
        return self.names.topology

    @property
    def is_alone(self) -> bool:
        """Return whether lone providers are asked for one group, so that none combine."""
        return self.query.is_plain and self.topology.flat

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """Return the constraints of a search that :attr:`is_alone`, as they are explained."""
        return self.conditions(PLAINLY)

    def conditions(self, manner: Manner) -> tuple[Constraint, ...]:
        """Return the same, written so: of the one group, and of the root, which is itself."""
        (group,) = self.query.groups
        return (
            *constraints_of(group, self.names, manner=manner),
            *root_constraints_of(self.query.root, self.names, manner),
        )


def prepare(connection: Connection, query: CandidatesQuery) -> Search:
    """Return the search that answers ``query``.

    Raises :class:`Invalid` for a resource class or trait that does not exist.
    """
    return Search(query, resolve(connection, query))


def find(
    connection: Connection,
    search: Search,
    settings: Settings,
    random: Random,
    *,
    one_of_a_tree: bool = False,
) -> Candidates:
    """Return the candidates of a search: the first by provider id, or a fair sample.

    ``one_of_a_tree`` leaves out candidates with several providers of one tree, which callers
    before microversion 1.29 would not understand. The options of ``[placement]`` apply:
    ``randomize_allocation_candidates``, ``max_allocation_candidates``,
    ``allocation_candidates_generation_strategy``, ``allocation_candidates_budget`` and
    ``max_member_of``. Raises :class:`TooComplex` for more combinations or memberships than the
    last two of them allow.
    """
    _check_memberships(search, settings)
    limit = effective_limit(search.query.limit, settings)
    lot = random if settings.placement.randomize_allocation_candidates else None
    if search.is_alone:
        return _alone(connection, search, limit, lot)
    strategy = settings.placement.allocation_candidates_generation_strategy
    harvest = Harvest(
        budget=_budget(settings),
        limit=limit,
        breadth_first=strategy == "breadth-first",
        random=lot,
    )
    return _together(connection, search, harvest, one_of_a_tree=one_of_a_tree)


def find_on(
    connection: Connection, search: Search, settings: Settings, roots: Collection[str]
) -> Candidates:
    """Return the candidates on the trees of these roots, as :func:`find` does without a limit.

    Of a tree with very many, only as many as ``[scheduler] max_placement_results`` are made.
    """
    if search.is_alone:
        of_these = among(connection, resource_providers.c.uuid, roots)
        (group,) = search.query.groups
        condition = and_(all_of(search.conditions(Manner(each=True))), of_these)
        return _candidates_of(group, *narrow(connection, condition, None, None), limit=None)
    harvest = Harvest(
        budget=_budget(settings),
        limit=settings.scheduler.max_placement_results,
        only=sorted(ids_of(connection, roots).values()),
    )
    return _together(connection, search, harvest, one_of_a_tree=False)


def _budget(settings: Settings) -> Budget:
    return Budget(
        settings.placement.allocation_candidates_budget,
        settings.placement_database.read_timeout,
    )


def _check_memberships(search: Search, settings: Settings) -> None:
    """Raise :class:`TooComplex` for more sets of aggregates than may be asked of providers."""
    query = search.query
    parts = () if search.is_alone else parts_of(query, search.names)
    asked = query.groups if search.is_alone else [part.group for part in parts]
    number = sum(len(group.aggregates.member_of) for group in asked)
    most = settings.placement.max_member_of
    if number > most:
        raise TooComplex(
            f"The request asks {number} times for a set of aggregates (member_of, for each class "
            f"of the group without suffix), where [placement] max_member_of allows {most}."
        )


def effective_limit(asked: int | None, settings: Settings) -> int | None:
    """Return the smaller of what the caller and the operator allow; None is no limit."""
    bound = settings.placement.max_allocation_candidates
    limits = [limit for limit in (asked, bound) if limit is not None and limit >= 0]
    return min(limits, default=None)


def limiting_option(asked: int | None, settings: Settings) -> str:
    """Return the option that sets the limit in effect, and where its value was laid over it."""
    bound = settings.placement.max_allocation_candidates
    by_operator = asked is None or 0 <= bound < asked
    group, name = (
        ("placement", "max_allocation_candidates")
        if by_operator
        else ("scheduler", "max_placement_results")
    )
    source = settings.laid_over(group, name)
    return f"[{group}] {name}" + (f" (set in {source})" if source else "")


def _alone(
    connection: Connection, search: Search, limit: int | None, lot: Random | None
) -> Candidates:
    """Return the providers that serve the one group of the request, each alone."""
    (group,) = search.query.groups
    if lot is None:
        counted = sums_of(connection, [search.names.classes[name] for name, _ in group.resources])
        condition = all_of(search.conditions(Manner(sums=counted)))
        providers, usages = narrow(connection, condition, counted, limit)
    else:
        providers = sample(connection, all_of(search.constraints), limit, lot)
        usages = Usages()
    return _candidates_of(group, providers, usages, limit=limit)


def _candidates_of(
    group: RequestGroup,
    providers: tuple[CandidateProvider, ...],
    usages: Usages,
    *,
    limit: int | None,
) -> Candidates:
    """Return a candidate on each of these providers, which serve the group alone."""
    layout = Layout(amounts=(dict(group.resources),), mappings={group.suffix: (0,)})
    return Candidates(
        requests=tuple(
            AllocationRequest(layout, (provider.uuid,), provider.root_uuid)
            for provider in providers
        ),
        providers=providers,
        limited=limit is not None and len(providers) >= limit,
        usages=usages,
    )


def _together(
    connection: Connection, search: Search, harvest: Harvest, *, one_of_a_tree: bool
) -> Candidates:
    """Return the combinations of providers that serve the request, tree by tree."""
    forest = forest_of(search, one_of_a_tree=one_of_a_tree)
    basket = gather(connection, forest, harvest)
    layouts = Layouts(forest.parts, search.names)
    uuids = {key: member.uuid for key, member in basket.members.items()}
    serving = dict.fromkeys(key for one in basket.found for key in one)
    own, others = described(basket.members, serving)
    return Candidates(
        requests=tuple([layouts.place(one, uuids) for one in basket.found.values()]),
        providers=(*own, *describe(connection, others)),
        limited=basket.lacking == 0,
        trees=None if search.topology.sharing else trees_of(basket.members, serving),
    )


def forest_of(search: Search, *, one_of_a_tree: bool = False) -> Forest:
    """Return a search as it is asked of trees."""
    parts = parts_of(search.query, search.names)
    return Forest(
        parts=parts,
        rules=_rules(search, parts, one_of_a_tree=one_of_a_tree),
        root=search.query.root,
        names=search.names,
        topology=search.topology,
    )


def _rules(search: Search, parts: tuple[Part, ...], *, one_of_a_tree: bool) -> Rules:
    query, trait_ids = search.query, search.names.traits
    positions = {part.slot.suffix: position for position, part in enumerate(parts)}
    group = query.group
    return Rules(
        slots=tuple(part.slot for part in parts),
        isolate=query.isolates,
        trait_choices=least_sets(
            frozenset(trait_ids[name] for name in any_of)
            for any_of in (group.traits.required if group and not serves_alone(group) else ())
        ),
        subtrees=distinct_ties(
            tuple(positions[suffix] for suffix in suffixes) for suffixes in query.same_subtrees
        ),
        one_of_a_tree=one_of_a_tree,
    )
