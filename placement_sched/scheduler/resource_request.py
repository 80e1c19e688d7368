"""From a request to a question: what the candidates search is asked for a request spec."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from random import Random

from placement_sched.candidates.search import Search, find, prepare
from placement_sched.config.settings import Settings
from placement_sched.errors import Invalid, TooComplex, UnknownNames
from placement_sched.limits import MAX_FITTED, MAX_MEMBERSHIPS, MAX_REQUESTED_AMOUNTS
from placement_sched.model import candidates_query as questions
from placement_sched.model.candidates_query import Candidates, together
from placement_sched.model.explanation import Ignored, RequestFilterReport
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.filtering import named_nodes
from placement_sched.scheduler.host_manager import CloudView
from placement_sched.scheduler.narrowing import RequestFilterRun, who_said
from placement_sched.scheduler.request import SchedulingRequest
from placement_sched.scheduler.request_groups import Groups, aggregate_terms, groups_of


@dataclass(frozen=True, slots=True)
class Confinement:
    """The nodes to which a request is confined by name: their uuids, or None for no such names.

    ``unlimited_hints`` are the scheduler hints that name hosts in another way.
    """

    nodes: tuple[str, ...] | None = None
    unlimited_hints: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class AnsweredSearch:
    """One question that was put to the candidates search, and what it found."""

    search: Search
    found: Candidates


@dataclass(frozen=True, slots=True)
class Searches:
    """What the candidates search was asked for a request, and what it found.

    ``query`` is the question, None for a rebuild. ``asked`` is None where a request filter refused
    the request. ``fallback`` asks for VCPU where ``asked`` asks for PCPU: what both find counts.
    ``ignored`` is what of flavor and image has no effect.
    """

    query: questions.CandidatesQuery | None = None
    ignored: tuple[Ignored, ...] = ()
    asked: AnsweredSearch | None = None
    fallback: AnsweredSearch | None = None

    @property
    def found(self) -> Candidates:
        """Return all candidates, those of the question itself first."""
        return together([one.found for one in (self.asked, self.fallback) if one is not None])

    @property
    def roots(self) -> dict[str, None]:
        """Return the uuids of the root providers that candidates lie on, in the order found."""
        return dict.fromkeys([request.root_uuid for request in self.found.requests])


@dataclass(frozen=True, slots=True)
class RequestQuestion:
    """What the candidates search is asked for a request, and what of the request is ignored."""

    query: questions.CandidatesQuery
    ignored: tuple[Ignored, ...] = ()


#: What lets a search find every candidate, by provider id.
_UNCUT = {
    "placement.max_allocation_candidates": -1,
    "placement.randomize_allocation_candidates": False,
}


def ask(
    cloud: CloudView,
    request: SchedulingRequest,
    narrowed: RequestFilterRun,
    random: Random,
    *,
    uncut: bool = False,
) -> Searches:
    """Return the candidates for a request as its request filters narrowed it.

    A rebuild asks nothing: the instance keeps its host and what it allocates there, as in nova.
    ``uncut`` finds every candidate; ``query`` is the question with its limit nevertheless.
    Raises what :func:`question_from` raises.
    """
    spec, settings, source = narrowed.spec, request.settings, cloud.providers
    if spec.is_rebuild:
        return Searches()
    nodes = named_nodes(cloud.connection, spec)
    uuids = None if nodes is None else tuple(node.uuid for node in nodes)
    named = Confinement(uuids, request.plugins.unlimited_hints)

    limits = settings.overridden(_UNCUT) if uncut else settings

    def answered(question: RequestQuestion) -> AnsweredSearch:
        query = replace(question.query, limit=None) if uncut else question.query
        try:
            search = prepare(source, query)
        except UnknownNames as unknown:
            raise unknown_in(spec, unknown, narrowed.reports) from None
        return AnsweredSearch(search, find(source, search, limits, random))

    question = question_from(spec, settings, named)
    cloud.memory.ignored.log(question.ignored)
    searches = Searches(question.query, question.ignored)
    if narrowed.refusal:
        return searches
    asked, fallback = answered(question), None
    if falls_back(spec, settings):
        fallback = answered(question_from(spec, settings, named, pinned=False))
    return replace(searches, asked=asked, fallback=fallback)


def question_from(
    spec: RequestSpec, settings: Settings, named: Confinement, *, pinned: bool = True
) -> RequestQuestion:
    """Return the allocation-candidates question of a request.

    ``pinned`` false asks for VCPU in place of PCPU. Raises :class:`Invalid` for extra specs, image
    properties and groups that cannot be, or that contradict each other, naming the keys; with
    ``[scheduler] strict_extra_specs`` also for those that are ignored otherwise.
    """
    groups = groups_of(spec, pinned=pinned)
    if groups.ignored and settings.scheduler.strict_extra_specs:
        raise Invalid(groups.ignored[0].refusal)
    frozen = _at_destination([group.frozen() for group in groups], spec, named)
    _check(groups, frozen, spec.same_subtree)
    most = settings.placement.max_request_groups
    if len(frozen) > most:
        raise TooComplex(
            f"{len(frozen)} request groups exceed [placement] max_request_groups ({most})."
        )
    _check_amounts(frozen, spec)
    _check_members(spec)
    _check_hardware(spec)
    # What a limit cuts might be what is wanted.
    uncut = (
        (named.nodes is not None and len(named.nodes) > 1)
        or spec.destination.only_cell
        or spec.instance_group is not None
        or any(name in spec.scheduler_hints for name in named.unlimited_hints)
    )
    query = questions.CandidatesQuery(
        groups=tuple(frozen),
        group_policy=_policy(groups),
        root=questions.TraitTerms(
            tuple(frozenset({name}) for name in sorted(spec.root_required)), spec.root_forbidden
        ),
        same_subtrees=spec.same_subtree,
        limit=None if uncut else settings.scheduler.max_placement_results,
    )
    return RequestQuestion(query, tuple(groups.ignored))


def _check_amounts(groups: Sequence[questions.RequestGroup], spec: RequestSpec) -> None:
    """Raise :class:`TooComplex` where the instances request more than one claim may allocate."""
    each, instances = sum(len(group.resources) for group in groups), len(spec.instance_uuids)
    if instances > 1 and each * instances > MAX_REQUESTED_AMOUNTS:
        raise TooComplex(
            f"{instances} instances that request {each} amounts of resources each exceed "
            f"{MAX_REQUESTED_AMOUNTS} amounts in one request",
            at="$.request_spec",
        )


def _check_members(spec: RequestSpec) -> None:
    """Raise :class:`TooComplex` where the members of a group are too many for the instances.

    Each instance that is placed joins the group, whose members are counted again for the next one.
    """
    members = len(spec.instance_group.members) if spec.instance_group else 0
    instances = len(spec.instance_uuids)
    if instances > 1 and members * instances > MAX_MEMBERSHIPS:
        raise TooComplex(
            f"{instances} instances of a server group with {members} members: the product may be "
            f"{MAX_MEMBERSHIPS} at most",
            at="$.request_spec",
        )


def _check_hardware(spec: RequestSpec) -> None:
    """Raise :class:`TooComplex` where too many NUMA nodes and PCI requests are to be fitted."""
    nodes = len(spec.numa_topology or ())
    devices = len(spec.pci_requests.requests) if spec.pci_requests else 0
    instances = len(spec.instance_uuids)
    if instances > 1 and (nodes + devices) * instances > MAX_FITTED:
        raise TooComplex(
            f"{instances} instances that request {nodes} NUMA nodes and {devices} times PCI "
            f"devices each exceed {MAX_FITTED} of both in one request",
            at="$.request_spec",
        )


def falls_back(spec: RequestSpec, settings: Settings) -> bool:
    """Return whether hosts that offer their pinned CPUs as VCPU are looked for as well.

    Only a CPU policy asks for that, not ``resources:PCPU`` (nova's documentation, "CPU
    topologies"; ``[workarounds] disable_fallback_pcpu_query``).
    """
    dedicated = spec.hardware.cpus.policy == "dedicated"
    return dedicated and not settings.workarounds.disable_fallback_pcpu_query


def unknown_in(
    spec: RequestSpec, unknown: UnknownNames, reports: Sequence[RequestFilterReport] = ()
) -> Invalid:
    """Return the error for unknown names, with the places in the request that name them.

    ``reports`` show which request filter added a trait of the root.
    """
    groups = groups_of(spec)
    places = [place for name in unknown.names for place in groups.sources_of(name)]
    of_root = {"root_required": spec.root_required, "root_forbidden": spec.root_forbidden}
    for name in unknown.names:
        places += [who_said(way, name, reports) for way in of_root if name in of_root[way]]
    reason = f"No such {unknown.kind}: {', '.join(unknown.names)}"
    return Invalid(f"{reason} ({', '.join(places)})" if places else reason)


def _at_destination(
    groups: list[questions.RequestGroup], spec: RequestSpec, named: Confinement
) -> list[questions.RequestGroup]:
    """Return the groups with the one without suffix confined to where the request may go."""
    destination = spec.destination
    wanted = aggregate_terms(
        (joined.split(",") for joined in destination.aggregates),
        (uuid for joined in destination.forbidden_aggregates for uuid in joined.split(",")),
    )
    # Of several nodes a question can name no tree.
    only = named.nodes[0] if named.nodes is not None and len(named.nodes) == 1 else None
    if wanted == questions.AggregateTerms() and only is None:
        return groups
    plain = next((group for group in groups if not group.suffix), questions.RequestGroup())
    confined = replace(plain, aggregates=wanted, in_tree=only)
    return [confined, *(group for group in groups if group.suffix)]


def _policy(groups: Groups) -> str | None:
    """Return the group policy: the flavor's, or none where others than it have made the groups.

    Raises :class:`Invalid` where several groups are the flavor's own, and it does not say.
    """
    if groups.policy is not None or len(groups.suffixes) < 2:
        return groups.policy
    if len(groups.of_flavor) > 1:
        named = ", ".join(map(repr, groups.of_flavor))
        raise Invalid(
            f"the flavor has several groups, {named}: the extra spec 'group_policy' has to say "
            "whether one provider may serve them (none) or not (isolate)"
        )
    return "none"


def _check(
    groups: Groups, frozen: list[questions.RequestGroup], ties: tuple[tuple[str, ...], ...]
) -> None:
    """Raise :class:`Invalid` for a subtree of groups that are not there, and missing resources.

    A group without resources is one that a subtree ties to others.
    """
    for position, tie in enumerate(ties):
        if unknown := sorted(set(tie).difference(groups.suffixes)):
            raise Invalid(
                f"unknown request group {unknown[0]!r}; known: "
                f"{', '.join(map(repr, groups.suffixes)) or 'only the one without suffix'}",
                at=f"$.request_spec.request_level_params.same_subtree[{position}]",
            )
    tied = {suffix for tie in ties for suffix in tie}
    for group in frozen:
        if not group.resources and group.suffix not in tied:
            name = f"group {group.suffix!r}" if group.suffix else "the group without suffix"
            askers = groups[group.suffix].askers if group.suffix in groups else []
            sources = ", ".join([*askers, *(() if group.suffix else groups.declining)])
            raise Invalid(
                f"{name} requests no resources, only traits, aggregates or a tree ({sources})"
            )
    if not any(group.resources for group in frozen):
        sources = ", ".join(groups.declining)
        raise Invalid(f"no resources are requested ({sources})")
