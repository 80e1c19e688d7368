"""From a request to a question: what the candidates search is asked for a request spec."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from placement_sched.config.settings import Settings
from placement_sched.errors import Invalid, TooComplex, UnknownNames
from placement_sched.model.ignored import Ignored
from placement_sched.model.query import (
    AggregateTerms,
    CandidatesQuery,
    RequestGroup,
    TraitTerms,
)
from placement_sched.model.report import RequestFilterReport
from placement_sched.model.spec import RequestSpec
from placement_sched.scheduler.groups import groups_of
from placement_sched.scheduler.groups.gathering import Groups
from placement_sched.scheduler.groups.requested import aggregate_terms
from placement_sched.scheduler.hardware.cpus import cpu_policy
from placement_sched.scheduler.stages import who_said

#: Hints that name other hosts or members, which a limit might cut away.
_UNLIMITED = ("group", "same_host", "different_host")
_PARAMS = "$.request_spec.request_level_params"


@dataclass(frozen=True, slots=True)
class Confinement:
    """The nodes to which a request is confined by name: their uuids, or None for no such names."""

    nodes: tuple[str, ...] | None = None

    @property
    def only(self) -> str | None:
        """Return the node, where there is exactly one."""
        return self.nodes[0] if self.nodes is not None and len(self.nodes) == 1 else None

    @property
    def is_loose(self) -> bool:
        """Return whether there are several, of which a question can name no tree."""
        return self.nodes is not None and len(self.nodes) > 1


@dataclass(frozen=True, slots=True)
class RequestQuestion:
    """What the candidates search is asked for a request, and what of the request is ignored."""

    query: CandidatesQuery
    ignored: tuple[Ignored, ...] = ()


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
    frozen = [group.frozen() for group in groups]
    frozen = _at_destination(frozen, spec, named)
    ties = spec.same_subtree
    _check_ties(groups, ties)
    _check_resources(groups, frozen, ties)
    most = settings.placement.max_request_groups
    if len(frozen) > most:
        raise TooComplex(
            f"{len(frozen)} request groups are asked for, where [placement] max_request_groups "
            f"allows {most}."
        )
    query = CandidatesQuery(
        groups=tuple(frozen),
        group_policy=_policy(groups),
        root=TraitTerms(
            tuple(frozenset({name}) for name in sorted(spec.root_required)), spec.root_forbidden
        ),
        same_subtrees=ties,
        limit=_limit(spec, settings, named),
    )
    return RequestQuestion(query, tuple(groups.ignored))


def falls_back(spec: RequestSpec, settings: Settings) -> bool:
    """Return whether hosts that offer their pinned CPUs as VCPU are looked for as well.

    Only a CPU policy asks for that, not ``resources:PCPU`` (nova's documentation, "CPU
    topologies"; ``[workarounds] disable_fallback_pcpu_query``).
    """
    dedicated = cpu_policy(spec.flavor, spec.image) == "dedicated"
    return dedicated and not settings.workarounds.disable_fallback_pcpu_query


def unknown_in(
    spec: RequestSpec, unknown: UnknownNames, reports: Sequence[RequestFilterReport] = ()
) -> Invalid:
    """Return the error that tells where in the request the unknown names came from.

    ``reports`` tell which request filter brought a trait of the root.
    """
    groups = groups_of(spec)
    places = [place for name in unknown.names for place in groups.sources_of(name)]
    for name in unknown.names:
        for way, traits in (
            ("root_required", spec.root_required),
            ("root_forbidden", spec.root_forbidden),
        ):
            places += [who_said(way, name, reports)] * (name in traits)
    told = f"No such {unknown.kind}: {', '.join(unknown.names)}"
    return Invalid(f"{told} ({', '.join(places)})" if places else told)


def _at_destination(
    groups: list[RequestGroup], spec: RequestSpec, named: Confinement
) -> list[RequestGroup]:
    """Return the groups with the one without suffix confined to where the request may go."""
    destination = spec.destination
    wanted = aggregate_terms(
        (joined.split(",") for joined in destination.aggregates),
        (uuid for joined in destination.forbidden_aggregates for uuid in joined.split(",")),
    )
    if wanted == AggregateTerms() and named.only is None:
        return groups
    plain = next((group for group in groups if not group.suffix), RequestGroup())
    confined = replace(plain, aggregates=wanted, in_tree=named.only)
    return [confined, *(group for group in groups if group.suffix)]


def _policy(groups: Groups) -> str | None:
    """Return the group policy: the flavor's, or none where others than it have made the groups.

    Raises :class:`Invalid` where several groups are the flavor's own, and it does not say.
    """
    if groups.policy is not None or len(groups.suffixes) < 2:
        return groups.policy
    if len(groups.of_flavor) > 1:
        named = ", ".join(repr(suffix) for suffix in groups.of_flavor)
        raise Invalid(
            f"the flavor has several groups, {named}: the extra spec 'group_policy' has to say "
            "whether one provider may serve them (none) or not (isolate)"
        )
    return "none"


def _limit(spec: RequestSpec, settings: Settings, named: Confinement) -> int | None:
    """Return how many candidates to ask for; None where what is cut might be what is wanted."""
    uncut = (
        named.is_loose
        or spec.destination.only_cell
        or spec.instance_group is not None
        or any(name in spec.scheduler_hints for name in _UNLIMITED)
    )
    return None if uncut else settings.scheduler.max_placement_results


def _check_ties(groups: Groups, ties: tuple[tuple[str, ...], ...]) -> None:
    for position, tie in enumerate(ties):
        unknown = sorted(set(tie) - set(groups.suffixes))
        if unknown:
            raise Invalid(
                f"there is no group {unknown[0]!r}, only "
                f"{', '.join(map(repr, groups.suffixes)) or 'the one without suffix'} "
                f"(at {_PARAMS}.same_subtree[{position}])"
            )


def _check_resources(
    groups: Groups, frozen: list[RequestGroup], ties: tuple[tuple[str, ...], ...]
) -> None:
    """Raise :class:`Invalid` for a group without resources, unless a subtree ties it to others."""
    tied = {suffix for tie in ties for suffix in tie}
    for group in frozen:
        if not group.resources and group.suffix not in tied:
            name = f"group {group.suffix!r}" if group.suffix else "the group without suffix"
            askers = groups[group.suffix].askers if group.suffix in groups else []
            told = ", ".join([*askers, *(() if group.suffix else groups.declining)])
            raise Invalid(
                f"{name} asks for no resources, only for providers of a kind or place ({told})"
            )
    if not any(group.resources for group in frozen):
        told = ", ".join(groups.declining)
        raise Invalid(f"the request asks for no resources at all ({told})")
