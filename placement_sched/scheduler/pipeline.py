"""The whole path of a request, top to bottom.

    request filters -> question -> candidates -> host states -> filters -> weighers -> best hosts

One run serves everybody: ``select_destinations`` claims what it chose, ``explain`` tells how it
went, and the explanation is read off the run itself.
"""

from dataclasses import dataclass, replace
from random import Random

from placement_sched.candidates.explain import explain
from placement_sched.candidates.search import Search, find, prepare
from placement_sched.config.settings import Settings
from placement_sched.db.connection import Connection
from placement_sched.errors import UnknownNames
from placement_sched.model.candidate import Candidates
from placement_sched.model.query import CandidatesQuery
from placement_sched.model.report import CandidatesReport, Funnel, View
from placement_sched.model.selection import Selection
from placement_sched.model.spec import RequestSpec
from placement_sched.scheduler.choose import Choice, Chooser
from placement_sched.scheduler.headroom import Headroom
from placement_sched.scheduler.hosts import Memory, World, host_states, named_states
from placement_sched.scheduler.loading import Plugins
from placement_sched.scheduler.named_hosts import named_nodes
from placement_sched.scheduler.question import question_from, unknown_in
from placement_sched.scheduler.stages import (
    RequestFilterRun,
    check_request,
    run_request_filters,
)
from placement_sched.store import compute_nodes

NOTHING_FOUND = Candidates()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What a run works with: plugins made for the settings, memory, and a source of chance."""

    settings: Settings
    plugins: Plugins
    memory: Memory
    random: Random


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How one request went, and under which settings; stages that were not reached are None."""

    settings: Settings
    narrowed: RequestFilterRun
    query: CandidatesQuery | None
    search: Search | None = None
    found: Candidates = NOTHING_FOUND
    choice: Choice | None = None

    @property
    def selections(self) -> tuple[tuple[Selection, ...], ...]:
        """Return the hosts chosen for each instance, the best first; empty where one has none."""
        return self.choice.selections if self.choice else ()


def run(connection: Connection, spec: RequestSpec, tools: Tools, alternates: int) -> Run:
    """Return how ``spec`` fares; nothing is claimed.

    Raises :class:`Invalid` for a request that cannot be understood and :class:`PluginFailed` for
    a plugin that raises.
    """
    world = World(connection, tools.memory)
    if spec.is_rebuild:
        return _run_rebuild(world, spec, tools, alternates)
    check_request(tools.plugins.filters, spec)
    narrowed = run_request_filters(tools.plugins.request_filters, spec, world)
    spec = narrowed.spec
    named = named_nodes(connection, spec)
    only = named[0].uuid if named is not None and len(named) == 1 else None
    query = question_from(spec, tools.settings, only)
    if narrowed.refusal:
        return Run(settings=tools.settings, narrowed=narrowed, query=query)
    search = _prepared(connection, query, spec)
    found = find(connection, search, tools.settings, tools.random)
    hosts = host_states(world, found)
    chooser = _chooser(tools, tools.plugins, alternates)
    several = spec.num_instances > 1
    headroom = Headroom.read(connection, found) if several else Headroom.unbounded()
    choice = chooser.choose(hosts, spec, headroom)
    return Run(
        settings=tools.settings,
        narrowed=narrowed,
        query=query,
        search=search,
        found=found,
        choice=choice,
    )


def _run_rebuild(world: World, spec: RequestSpec, tools: Tools, alternates: int) -> Run:
    """Return how a rebuild fares: nothing is looked for, few filters judge the hosts named or all.

    The instance keeps its host and what it holds there, as in nova; only its image is another.
    """
    filters = tuple(plugin for plugin in tools.plugins.filters if plugin.RUN_ON_REBUILD)
    check_request(filters, spec)
    named = named_nodes(world.connection, spec)
    nodes = compute_nodes.search(world.connection) if named is None else named
    chooser = _chooser(tools, replace(tools.plugins, filters=filters), alternates)
    choice = chooser.choose(named_states(world, nodes), spec, Headroom.unbounded())
    narrowed = RequestFilterRun(spec, ())
    return Run(settings=tools.settings, narrowed=narrowed, query=None, choice=choice)


def _prepared(connection: Connection, query: CandidatesQuery, spec: RequestSpec) -> Search:
    try:
        return prepare(connection, query)
    except UnknownNames as unknown:
        raise unknown_in(spec, unknown) from None


def _chooser(tools: Tools, plugins: Plugins, alternates: int) -> Chooser:
    return Chooser(
        plugins=plugins, settings=tools.settings, random=tools.random, alternates=alternates
    )


def funnel(connection: Connection, done: Run, view: View) -> Funnel:
    """Return what each stage of a run took in, let out and refused, for its first instance."""
    first = done.choice.first if done.choice else None
    return Funnel(
        request_filters=done.narrowed.reports,
        allocation_candidates=_candidates_report(connection, done, view),
        filters=first.filters if first else (),
        weighers=first.weighers if first else (),
    )


def _candidates_report(connection: Connection, done: Run, view: View) -> CandidatesReport:
    if done.search is None:
        return CandidatesReport(query=done.query.querystring() if done.query else "")
    return explain(connection, done.search, done.found, done.settings, view)
