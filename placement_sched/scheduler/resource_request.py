# SPDX-License-Identifier: Apache-2.0
"""Candidates queries: from a request spec to its allocation candidates."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from random import Random

from placement_sched.candidates.request import Search
from placement_sched.candidates.search import find, prepare
from placement_sched.config.settings import Settings
from placement_sched.errors import Invalid, TooComplex, UnknownResourceClassOrTrait
from placement_sched.explain.values import IgnoredValue, RequestFilterReport
from placement_sched.limits import MAX_FITTED, MAX_MEMBERSHIPS, MAX_REQUESTED_AMOUNTS
from placement_sched.model.candidates_query import (
    AggregateTerms,
    Candidates,
    CandidatesQuery,
    RequestGroup,
    TraitTerms,
    merge_results,
)
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.filtering import (
    RequestFilterRun,
    find_named_nodes,
    find_trait_source,
)
from placement_sched.scheduler.host_manager import RequestView
from placement_sched.scheduler.request import SchedulingRequest
from placement_sched.scheduler.request_groups import Groups, build_aggregate_terms, build_groups


@dataclass(frozen=True, slots=True)
class CandidateResult:
    """A query of the candidate search and its candidates."""

    search: Search
    candidates: Candidates


@dataclass(frozen=True, slots=True)
class CandidateResults:
    """The candidates queries of a request, and their results.

    ``query`` is None for a rebuild, and ``main``, its result, also if a request filter rejected the
    request. ``fallback`` is the result of a second query with VCPU in place of PCPU, or None.
    ``ignored`` are the extra specs and image properties without effect.
    """

    query: CandidatesQuery | None = None
    ignored: tuple[IgnoredValue, ...] = ()
    main: CandidateResult | None = None
    fallback: CandidateResult | None = None

    @property
    def results(self) -> tuple[CandidateResult, ...]:
        """Return the results of the searches, starting with the main query."""
        return tuple(each for each in (self.main, self.fallback) if each is not None)

    @property
    def candidates(self) -> Candidates:
        """Return the candidates of all searches, starting with the main query."""
        return merge_results([each.candidates for each in self.results])

    @property
    def class_ids(self) -> dict[str, int]:
        """Map the names of the requested resource classes to their ids."""
        names = [each.search.names.classes for each in self.results]
        return {name: key for ids in names for name, key in ids.items()}

    @property
    def roots(self) -> dict[str, None]:
        """Return the uuids of root providers with candidates, in result order."""
        return dict.fromkeys([request.root_uuid for request in self.candidates.requests])


#: Options to find every candidate, sorted by provider id.
_UNLIMITED = {
    "placement.max_allocation_candidates": -1,
    "placement.randomize_allocation_candidates": False,
}


def find_candidates(
    view: RequestView,
    request: SchedulingRequest,
    filtered: RequestFilterRun,
    random: Random,
    *,
    unlimited: bool = False,
) -> CandidateResults:
    """Find the candidates of a request, after its request filters have run.

    A rebuild has no query, because the instance keeps its host and allocations, as in nova. With
    ``unlimited``, every candidate is found, although the ``query`` of the result has the limit.
    Raises the errors of :func:`build_query`, and :class:`Invalid` for an unknown class or trait.
    """
    spec, settings = filtered.spec, request.settings
    if spec.is_rebuild:
        return CandidateResults()
    nodes = find_named_nodes(view.connection, spec)
    uuids = None if nodes is None else [node.uuid for node in nodes]
    targets = uuids, request.plugins.unlimited_hints
    query, ignored = build_query(spec, settings, *targets)
    for entry in ignored:
        view.caches.log_once(entry.detail)
    if view.unclaimed and query.limit is not None:
        # These instances may use the capacity of some candidates.
        query = replace(query, limit=query.limit + len(view.unclaimed))
    if filtered.rejection:
        return CandidateResults(query, ignored)
    queries = [query]
    if can_fall_back_to_vcpu(spec, settings):
        fallback_query, _ = build_query(spec, settings, *targets, pinned=False)
        queries.append(replace(fallback_query, limit=query.limit))
    limits = settings
    if unlimited:
        limits = settings.with_overrides(_UNLIMITED)
        queries = [replace(each, limit=None) for each in queries]
    try:
        searches = [prepare(view.providers, each) for each in queries]
    except UnknownResourceClassOrTrait as unknown:
        raise find_unknown_names(spec, unknown, filtered.reports) from None
    main, *fallback = (
        CandidateResult(search, find(view.providers, search, limits, random)) for search in searches
    )
    return CandidateResults(query, ignored, main, fallback[0] if fallback else None)


def build_query(
    spec: RequestSpec,
    settings: Settings,
    nodes: Sequence[str] | None = None,
    unlimited_hints: Collection[str] = (),
    *,
    pinned: bool = True,
) -> tuple[CandidatesQuery, tuple[IgnoredValue, ...]]:
    """Return the candidates query of a request, and its ignored keys.

    ``nodes`` are the uuids of the nodes that the request names, None if it names no node. A request
    with any of ``unlimited_hints`` has no limit of candidates. With ``pinned`` false, VCPU replaces
    PCPU. Raises :class:`Invalid`, naming the keys, if extra specs, image properties or groups are
    invalid or contradict each other, and with ``[scheduler] strict_extra_specs`` also if keys would
    be ignored. Raises :class:`TooComplex` if the request exceeds a limit.
    """
    groups = build_groups(spec, pinned=pinned)
    if groups.ignored and settings.scheduler.strict_extra_specs:
        raise Invalid(groups.ignored[0].rejection)
    frozen = _restrict_to_destination([group.build() for group in groups], spec, nodes)
    _check(groups, frozen, spec.same_subtree)
    limit = settings.placement.max_request_groups
    if len(frozen) > limit:
        raise TooComplex(
            f"{len(frozen)} request groups exceed [placement] max_request_groups ({limit})."
        )
    _check_size(frozen, spec)
    # A limit could cut off the candidates on the hosts that these parts of the request refer to.
    is_unlimited = (
        (nodes is not None and len(nodes) > 1)
        or spec.destination.only_cell
        or spec.instance_group is not None
        or any(name in spec.scheduler_hints for name in unlimited_hints)
    )
    query = CandidatesQuery(
        groups=tuple(frozen),
        group_policy=_get_group_policy(groups),
        root=TraitTerms(
            tuple(frozenset({name}) for name in sorted(spec.root_required)), spec.root_forbidden
        ),
        same_subtrees=spec.same_subtree,
        limit=None if is_unlimited else settings.scheduler.max_placement_results,
    )
    return query, tuple(groups.ignored)


def _check_size(groups: Sequence[RequestGroup], spec: RequestSpec) -> None:
    """Raise :class:`TooComplex` if a request is too large for a single claim.

    Members of the server group count once per instance, as filters count them again.
    """
    amounts, instances = sum(len(group.resources) for group in groups), len(spec.instance_uuids)
    members = len(spec.instance_group.members) if spec.instance_group else 0
    nodes = len(spec.numa_topology or ())
    devices = len(spec.pci_requests.requests) if spec.pci_requests else 0
    reason = ""
    if amounts * instances > MAX_REQUESTED_AMOUNTS:
        reason = (
            f"with {amounts} amounts of resources each: all instances together may request at "
            f"most {MAX_REQUESTED_AMOUNTS} amounts"
        )
    elif members * instances > MAX_MEMBERSHIPS:
        reason = (
            f"of a server group with {members} members: instances times members may be "
            f"{MAX_MEMBERSHIPS} at most"
        )
    elif (nodes + devices) * instances > MAX_FITTED:
        reason = (
            f"with {nodes} NUMA nodes and {devices} PCI requests each: all instances together may "
            f"have at most {MAX_FITTED} NUMA nodes plus PCI requests"
        )
    if reason and instances > 1:
        raise TooComplex(f"{instances} instances {reason}", json_path="$.request_spec")


def can_fall_back_to_vcpu(spec: RequestSpec, settings: Settings) -> bool:
    """Return whether a second query requests pinned CPUs as VCPU.

    This applies to the CPU policy ``dedicated``, not to ``resources:PCPU`` (nova's documentation,
    "CPU topologies", and ``[workarounds] disable_fallback_pcpu_query``).
    """
    dedicated = spec.hardware.cpus.policy == "dedicated"
    return dedicated and not settings.workarounds.disable_fallback_pcpu_query


def find_unknown_names(
    spec: RequestSpec,
    unknown: UnknownResourceClassOrTrait,
    reports: Sequence[RequestFilterReport] = (),
) -> Invalid:
    """Build the error for unknown names of resource classes or traits.

    The error lists the JSON paths, keys and request filters (in ``reports``) with these names.
    """
    groups = build_groups(spec)
    sources = [source for name in unknown.names for source in groups.list_sources(name)]
    root_traits = {"root_required": spec.root_required, "root_forbidden": spec.root_forbidden}
    for name in unknown.names:
        sources += [
            find_trait_source(kind, name, reports)
            for kind in root_traits
            if name in root_traits[kind]
        ]
    reason = f"No such {unknown.kind}: {', '.join(unknown.names)}"
    return Invalid(f"{reason} ({', '.join(sources)})" if sources else reason)


def _restrict_to_destination(
    groups: list[RequestGroup], spec: RequestSpec, nodes: Sequence[str] | None
) -> list[RequestGroup]:
    destination = spec.destination
    aggregates = build_aggregate_terms(
        (joined.split(",") for joined in destination.aggregates),
        (uuid for joined in destination.forbidden_aggregates for uuid in joined.split(",")),
    )
    # A query can be restricted to a single tree. Otherwise filters reject other hosts.
    node = nodes[0] if nodes is not None and len(nodes) == 1 else None
    if aggregates == AggregateTerms() and node is None:
        return groups
    unsuffixed = next((group for group in groups if not group.suffix), RequestGroup())
    restricted = replace(unsuffixed, aggregates=aggregates, in_tree=node)
    return [restricted, *(group for group in groups if group.suffix)]


def _get_group_policy(groups: Groups) -> str | None:
    """Return the flavor's group policy, or the default.

    The default is ``none`` for several groups with a suffix, otherwise None. Raises
    :class:`Invalid` if the flavor itself has several groups with a suffix and no policy.
    """
    if groups.policy is not None or len(groups.suffixes) < 2:
        return groups.policy
    if len(groups.flavor_suffixes) > 1:
        names = ", ".join(map(repr, groups.flavor_suffixes))
        raise Invalid(
            f"the flavor has several groups, {names}: set the extra spec 'group_policy' to 'none' "
            "(a single provider may serve them) or 'isolate'"
        )
    return "none"


def _check(
    groups: Groups, frozen: list[RequestGroup], subtrees: tuple[tuple[str, ...], ...]
) -> None:
    """Raise :class:`Invalid` for a wrong ``same_subtree`` or no resources."""
    for position, subtree in enumerate(subtrees):
        if unknown := sorted(set(subtree).difference(groups.suffixes)):
            raise Invalid(
                f"unknown request group {unknown[0]!r} (suffixes of the request: "
                f"{', '.join(map(repr, groups.suffixes)) or 'none'})",
                json_path=f"$.request_spec.request_level_params.same_subtree[{position}]",
            )
    subtree_suffixes = {suffix for subtree in subtrees for suffix in subtree}
    for group in frozen:
        if not group.resources and group.suffix not in subtree_suffixes:
            name = f"group {group.suffix!r}" if group.suffix else "the group without suffix"
            group_sources = groups[group.suffix].all_sources if group.suffix in groups else []
            sources = ", ".join(
                [*group_sources, *(() if group.suffix else groups.zero_amount_sources)]
            )
            raise Invalid(
                f"{name} requests no resources, only traits, aggregates or a tree ({sources})"
            )
    if not any(group.resources for group in frozen):
        sources = ", ".join(groups.zero_amount_sources)
        raise Invalid(f"no resources are requested ({sources})")
