"""The whole path of a request, top to bottom.

    request filters -> question -> candidates -> host states -> filters -> weighers -> best hosts

One run serves everybody: ``select_destinations`` claims what it chose, ``explain`` tells how it
went, and the explanation is read off the run itself.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random

from placement_sched.candidates.explain import explain
from placement_sched.candidates.roomy import Roomy
from placement_sched.candidates.search import Search, find, prepare
from placement_sched.config.settings import Settings
from placement_sched.db.connection import Connection
from placement_sched.errors import UnknownNames
from placement_sched.model.candidate import Candidates, together
from placement_sched.model.ignored import Ignored
from placement_sched.model.obstacle import RoomReport
from placement_sched.model.policy_report import PolicyReport
from placement_sched.model.query import CandidatesQuery
from placement_sched.model.report import (
    COMPUTE_NODES,
    CandidatesReport,
    FilterReport,
    Funnel,
    LaterReport,
    Rejected,
    View,
)
from placement_sched.model.selection import Selection
from placement_sched.model.spec import RequestSpec
from placement_sched.scheduler import disabled_hosts
from placement_sched.scheduler.aggregates import Aggregates
from placement_sched.scheduler.choose import Choice, Chooser
from placement_sched.scheduler.headroom import Headroom
from placement_sched.scheduler.hosts import Memory, World, host_states, named_states
from placement_sched.scheduler.loading import Plugins
from placement_sched.scheduler.named_hosts import confinement, named_nodes
from placement_sched.scheduler.policies.registry import Policies
from placement_sched.scheduler.question import falls_back, question_from, unknown_in
from placement_sched.scheduler.stages import (
    RequestFilterRun,
    check_request,
    run_request_filters,
)
from placement_sched.store import compute_nodes, resource_providers

#: Why a candidate is left out that lies on no known compute node: the same words for all, so that
#: a person is shown them once.
NOT_REPORTED = "no compute node is reported under the uuid of this resource provider"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What a run works with: plugins made for the settings, memory, and a source of chance.

    ``policies`` are all that there are: which of them hosts are under tells the hosts' ratios.
    """

    settings: Settings
    plugins: Plugins
    memory: Memory
    random: Random
    policies: Policies | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """One question that was put to the candidates search, and what it found."""

    search: Search
    found: Candidates


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How one request went, and under which settings; stages that were not reached are empty.

    ``fallback`` asks for VCPU where ``asked`` asks for PCPU: what both find counts.
    ``states_age`` is in seconds, where the driver keeps host states. ``unreported`` are the root
    providers with candidates that are no known compute node. ``ignored`` is what of flavor and
    image has no effect. ``world`` and ``chooser`` are what it worked with: a verdict on one host
    asks them again.
    """

    settings: Settings
    narrowed: RequestFilterRun
    query: CandidatesQuery | None
    asked: Asked | None = None
    fallback: Asked | None = None
    choice: Choice | None = None
    states_age: float | None = None
    policy: PolicyReport | None = None
    ignored: tuple[Ignored, ...] = ()
    unreported: tuple[str, ...] = ()
    world: World | None = None
    chooser: Chooser | None = None

    @property
    def roots(self) -> dict[str, None]:
        """Return the uuids of the root providers that candidates lie on, in the order found."""
        return dict.fromkeys([request.root_uuid for request in self.found.requests])

    @property
    def selections(self) -> tuple[tuple[Selection, ...], ...]:
        """Return the hosts chosen for each instance, the best first; empty where one has none."""
        return self.choice.selections if self.choice else ()

    @property
    def found(self) -> Candidates:
        """Return all candidates, those of the question itself first."""
        return together([one.found for one in (self.asked, self.fallback) if one is not None])


def run(
    connection: Connection,
    spec: RequestSpec,
    tools: Tools,
    alternates: int,
    aggregates: Aggregates | None = None,
) -> Run:
    """Return how ``spec`` fares; nothing is claimed. ``aggregates`` are there if they were read.

    Raises :class:`Invalid` for a request that cannot be understood and :class:`PluginFailed` for
    a plugin that raises.
    """
    driver = tools.plugins.driver
    world = World(connection, tools.memory, driver.keeps_states, aggregates, tools.policies)
    if spec.is_rebuild:
        return _run_rebuild(world, spec, tools, alternates)
    check_request(tools.plugins.filters, spec)
    narrowed = run_request_filters(tools.plugins.request_filters, spec, world)
    spec = narrowed.spec
    named = confinement(connection, spec)
    question = question_from(spec, tools.settings, named)
    query = question.query
    tools.memory.ignored.log(question.ignored)
    chooser = _chooser(tools, tools.plugins, alternates)
    done = Run(
        settings=tools.settings,
        narrowed=narrowed,
        query=query,
        states_age=_states_age(tools),
        ignored=question.ignored,
        world=world,
        chooser=chooser,
    )
    if narrowed.refusal:
        return done
    done = replace(done, asked=_asked(connection, query, narrowed, tools))
    if falls_back(spec, tools.settings):
        unpinned = question_from(spec, tools.settings, named, pinned=False).query
        done = replace(done, fallback=_asked(connection, unpinned, narrowed, tools))
    found = done.found
    hosts = host_states(world, found, spec)
    several = spec.num_instances > 1
    headroom = Headroom(connection, found) if several else Headroom.unbounded()
    known = {state.uuid for state in hosts}
    done = replace(done, unreported=tuple([root for root in done.roots if root not in known]))
    return replace(done, choice=chooser.choose(hosts, spec, headroom))


def _run_rebuild(world: World, spec: RequestSpec, tools: Tools, alternates: int) -> Run:
    """Return how a rebuild fares: nothing is looked for, few filters judge the hosts named or all.

    The instance keeps its host and what it holds there, as in nova; only its image is another.
    """
    filters = tuple(plugin for plugin in tools.plugins.filters if plugin.RUN_ON_REBUILD)
    check_request(filters, spec)
    named = named_nodes(world.connection, spec)
    nodes = compute_nodes.search(world.connection) if named is None else named
    chooser = _chooser(tools, replace(tools.plugins, filters=filters), alternates)
    choice = chooser.choose(named_states(world, nodes, spec), spec, Headroom.unbounded())
    narrowed = RequestFilterRun(spec, ())
    return Run(
        settings=tools.settings,
        narrowed=narrowed,
        query=None,
        choice=choice,
        world=world,
        chooser=chooser,
    )


def _states_age(tools: Tools) -> float | None:
    """Return how old the host states are that the driver keeps, read anew where it is time."""
    driver = tools.plugins.driver
    if not driver.keeps_states:
        return None
    interval = tools.settings.scheduler.periodic_task_interval
    return tools.memory.kept_nodes.refresh(driver.now(), interval)


def _asked(
    connection: Connection, query: CandidatesQuery, narrowed: RequestFilterRun, tools: Tools
) -> Asked:
    try:
        search = prepare(connection, query)
    except UnknownNames as unknown:
        raise unknown_in(narrowed.spec, unknown, narrowed.reports) from None
    return Asked(search, find(connection, search, tools.settings, tools.random))


def _chooser(tools: Tools, plugins: Plugins, alternates: int) -> Chooser:
    return Chooser(
        plugins=plugins, settings=tools.settings, random=tools.random, alternates=alternates
    )


def funnel(connection: Connection, done: Run, view: View, memory: Memory) -> Funnel:
    """Return what each stage of a run took in, let out and refused, for its first instance."""
    names = resource_providers.names_of(connection, done.unreported) if done.unreported else {}
    return _funnel(done, _candidates_report(connection, done, view, memory.roomy), names)


def outline(done: Run) -> Funnel:
    """Return the funnel without the steps of the search, which the run itself did not count.

    It costs no statement: what refused whom before the host filters is :func:`funnel`'s to ask,
    and providers without a compute node are listed by their uuids.
    """
    query = done.query.querystring() if done.query else ""
    return _funnel(done, CandidatesReport(query=query, hosts=len(done.roots)), {})


def _funnel(done: Run, candidates: CandidatesReport, names: Mapping[str, str]) -> Funnel:
    first = done.choice.first if done.choice else None
    return Funnel(
        request_filters=done.narrowed.reports,
        allocation_candidates=candidates,
        filters=(*_unreported(done, names), *(first.filters if first else ())),
        weighers=first.weighers if first else (),
        states_age=done.states_age,
        policy=done.policy,
        later=_later(done),
        room=_room(done),
        selected=bool(done.selections),
        warnings=done.ignored,
    )


def _unreported(done: Run, names: Mapping[str, str]) -> Iterator[FilterReport]:
    """Yield the stage that leaves out providers without a compute node, where there are any."""
    if not done.unreported:
        return
    before = len(done.roots)
    yield FilterReport(
        name=COMPUTE_NODES,
        before=before,
        after=before - len(done.unreported),
        rejected=tuple(
            Rejected(name, name, NOT_REPORTED)
            for name in (names.get(uuid, uuid) for uuid in done.unreported)
        ),
    )


def _later(done: Run) -> LaterReport | None:
    choice = done.choice
    if choice is None or choice.later is None:
        return None
    return LaterReport(placed=choice.placed, filters=choice.later.filters)


def _room(done: Run) -> RoomReport | None:
    choice = done.choice
    if choice is None or choice.room_for is None:
        return None
    return RoomReport(instances=done.narrowed.spec.num_instances, at_most=choice.room_for)


def _candidates_report(
    connection: Connection, done: Run, view: View, roomy: Roomy
) -> CandidatesReport:
    if done.asked is None:
        return CandidatesReport(query=done.query.querystring() if done.query else "")
    reports = [
        disabled_hosts.told(
            connection, explain(connection, one.search, one.found, done.settings, view, roomy)
        )
        for one in (done.asked, done.fallback)
        if one is not None
    ]
    only, *others = reports
    return only.falling_back_to(others[0], len(done.roots)) if others else only
