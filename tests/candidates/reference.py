# SPDX-License-Identifier: Apache-2.0
"""A second, naive implementation of the candidate search, as a reference for tests.

For each tree, it combines every provider of the tree and every provider that shares with the tree
for each slot of the request. Then it drops the combinations that break a rule of the Placement
documentation.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

from placement_sched.model.candidates_query import (
    AggregateTerms,
    AllocationRequest,
    CandidatesQuery,
    RequestGroup,
    TraitTerms,
)
from tests.support.clouds import Cloud, Host, uuid_of

SHARING_TRAIT = "MISC_SHARES_VIA_AGGREGATE"


@dataclass(frozen=True)
class ExpectedCandidate:
    """A candidate: ``(provider, class, amount)`` and ``(suffix, providers)``."""

    allocations: frozenset[tuple[str, str, int]]
    mappings: frozenset[tuple[str, frozenset[str]]]


def convert_candidate(request: AllocationRequest) -> ExpectedCandidate:
    """Convert a candidate of the search, to compare it with the candidates of this module."""
    return ExpectedCandidate(
        frozenset(
            (provider, name, amount)
            for provider, amounts in request.allocations.items()
            for name, amount in amounts.items()
        ),
        frozenset((suffix, frozenset(uuids)) for suffix, uuids in request.mappings.items()),
    )


@dataclass(frozen=True)
class ResourceSlot:
    """Resources of a single provider: a suffixed group, or a class of the unsuffixed group."""

    group: RequestGroup
    resources: tuple[tuple[str, int], ...]


def find_candidates_by_tree(
    cloud: Cloud, query: CandidatesQuery, *, single_per_tree: bool = False
) -> dict[str, set[ExpectedCandidate]]:
    """Return the candidates of each tree, by the uuid of its root."""
    return {
        root.uuid: {
            _build_candidate(slots, chosen)
            for slots, chosen in _iterate_provider_combinations(cloud, query, root)
            if _is_query_satisfied(cloud, query, root, slots, chosen)
            and not (single_per_tree and _has_two_providers_of_a_tree(cloud, chosen))
        }
        for root in cloud.hosts
        if root.parent is None
    }


def find_all_candidates(cloud: Cloud, query: CandidatesQuery, *, single_per_tree: bool = False):
    """Return the candidates of all trees."""
    return set().union(
        *find_candidates_by_tree(cloud, query, single_per_tree=single_per_tree).values()
    )


def list_tree_and_sharing_providers(cloud: Cloud, root: Host) -> list[Host]:
    """Return the providers of a tree and the providers that share with it."""
    own = [host for host in cloud.hosts if cloud.root(host) == root]
    joined = set().union(*(host.aggregates for host in own))
    return [
        host
        for host in cloud.hosts
        if host in own or (SHARING_TRAIT in host.traits and host.aggregates & joined)
    ]


def _iterate_provider_combinations(
    cloud: Cloud, query: CandidatesQuery, root: Host
) -> Iterator[tuple[list[ResourceSlot], tuple[Host, ...]]]:
    slots = [slot for group in query.groups for slot in _split_group_into_slots(group)]
    pool = list_tree_and_sharing_providers(cloud, root)
    # Combining only providers that can serve the slot saves time and changes no result.
    fitting = [
        [host for host in pool if can_provider_serve_slot(cloud, slot, host, root)]
        for slot in slots
    ]
    for chosen in product(*fitting):
        yield slots, chosen


def _split_group_into_slots(group: RequestGroup) -> list[ResourceSlot]:
    if group.suffix or not group.resources:
        return [ResourceSlot(group, group.resources)]
    return [ResourceSlot(group, (amount,)) for amount in group.resources]


def can_provider_serve_slot(cloud: Cloud, slot: ResourceSlot, host: Host, root: Host) -> bool:
    """Return whether a provider can serve a slot, ignoring the other slots."""
    group = slot.group
    counted = [host.aggregates]
    avoided = host.aggregates
    if not group.suffix:
        own = cloud.root(host)
        if own == root:
            counted.append(root.aggregates)
        avoided = avoided | own.aggregates | root.aggregates
    return (
        all(
            name in host.inventories and host.inventories[name].can_take(amount)
            for name, amount in slot.resources
        )
        and not host.traits & group.traits.forbidden
        and (not group.suffix or _has_required_traits(host.traits, group.traits))
        and _has_requested_aggregates(group.aggregates, counted, avoided)
        and _is_in_requested_tree(cloud, group, host)
    )


def _has_required_traits(traits: frozenset[str], terms: TraitTerms) -> bool:
    return all(traits & any_of for any_of in terms.required)


def _has_requested_aggregates(
    terms: AggregateTerms, counted: Iterable[Iterable[str]], avoided: Iterable[str]
) -> bool:
    """Return whether a set of ``counted`` meets all terms, and none is forbidden."""
    return any(
        all({uuid_of(name) for name in names} & any_of for any_of in terms.member_of)
        for names in counted
    ) and not ({uuid_of(name) for name in avoided} & terms.forbidden)


def _is_in_requested_tree(cloud: Cloud, group: RequestGroup, host: Host) -> bool:
    if group.in_tree is None:
        return True
    own = [other.uuid for other in cloud.hosts if cloud.root(other) == cloud.root(host)]
    return group.in_tree in own


def _is_query_satisfied(
    cloud: Cloud,
    query: CandidatesQuery,
    root: Host,
    slots: list[ResourceSlot],
    chosen: tuple[Host, ...],
    ignored_class: str = "",
) -> bool:
    """Return whether a combination of providers meets the rules of the whole query."""
    all_traits = frozenset().union(
        *(host.traits for slot, host in zip(slots, chosen, strict=True) if not slot.group.suffix)
    )
    suffixed = [host for slot, host in zip(slots, chosen, strict=True) if slot.group.suffix]
    by_suffix = {slot.group.suffix: host for slot, host in zip(slots, chosen, strict=True)}
    unsuffixed = query.group or RequestGroup()
    return (
        _has_required_traits(all_traits, unsuffixed.traits)
        and not (query.isolates and len({host.name for host in suffixed}) < len(suffixed))
        and all(
            _is_within_one_subtree(cloud, [by_suffix[suffix] for suffix in suffixes])
            for suffixes in query.same_subtrees
        )
        and _has_required_traits(root.traits, query.root)
        and not root.traits & query.root.forbidden
        and _has_enough_capacity(slots, chosen, ignored_class)
    )


def _is_within_one_subtree(cloud: Cloud, hosts: list[Host]) -> bool:
    """Return whether a provider of the list is the root of a subtree with all others."""
    return any(all(top in cloud.list_host_and_ancestors(host) for host in hosts) for top in hosts)


def _has_enough_capacity(
    slots: list[ResourceSlot], chosen: tuple[Host, ...], ignored_class: str = ""
) -> bool:
    """Return whether the total amounts fit on each provider, max_unit included."""
    inventories = {
        (host.name, name): used_inventory
        for host in chosen
        for name, used_inventory in host.inventories.items()
    }
    for place, amount in _sum_requested_amounts(slots, chosen).items():
        used_inventory = inventories[place]
        if place[1] != ignored_class and (
            used_inventory.used + amount > used_inventory.capacity
            or amount > used_inventory.inventory.max_unit
        ):
            return False
    return True


def _sum_requested_amounts(
    slots: list[ResourceSlot], chosen: tuple[Host, ...]
) -> Mapping[tuple[str, str], int]:
    totals: Counter[tuple[str, str]] = Counter()
    for slot, host in zip(slots, chosen, strict=True):
        for name, amount in slot.resources:
            totals[host.name, name] += amount
    return totals


def _has_two_providers_of_a_tree(cloud: Cloud, chosen: tuple[Host, ...]) -> bool:
    """Return whether two different providers are in the same tree."""
    different = {host.name for host in chosen}
    return len({cloud.root(cloud[name]).name for name in different}) < len(different)


def _build_candidate(slots: list[ResourceSlot], chosen: tuple[Host, ...]) -> ExpectedCandidate:
    mapped: dict[str, set[str]] = {}
    for slot, host in zip(slots, chosen, strict=True):
        mapped.setdefault(slot.group.suffix, set()).add(host.uuid)
    return ExpectedCandidate(
        frozenset(
            (uuid_of(provider), name, amount)
            for (provider, name), amount in _sum_requested_amounts(slots, chosen).items()
        ),
        frozenset((suffix, frozenset(uuids)) for suffix, uuids in mapped.items()),
    )


def has_provider_for_each_slot(cloud: Cloud, query: CandidatesQuery, root: Host) -> bool:
    """Return whether a tree has a provider for each slot. Rules of combinations are ignored."""
    pool = list_tree_and_sharing_providers(cloud, root)
    return (
        all(_has_provider_for_group(cloud, group, root, pool) for group in query.groups)
        and _has_required_traits(root.traits, query.root)
        and not root.traits & query.root.forbidden
    )


def _has_provider_for_group(
    cloud: Cloud, group: RequestGroup, root: Host, pool: list[Host]
) -> bool:
    slots = _split_group_into_slots(group)
    fitting = [
        [host for host in pool if can_provider_serve_slot(cloud, slot, host, root)]
        for slot in slots
    ]
    if len(slots) == 1:
        return any(_has_required_traits(host.traits, group.traits) for host in fitting[0])
    all_traits = frozenset().union(*(host.traits for hosts in fitting for host in hosts))
    return all(fitting) and _has_required_traits(all_traits, group.traits)


@dataclass(frozen=True)
class ScarceClass:
    """A class with capacity for each slot, but not for all slots."""

    name: str
    amounts: tuple[int, ...]
    free_amounts: tuple[int, ...]


@dataclass(frozen=True)
class BrokenRules:
    """The rules whose removal lets a tree serve a query, each alone."""

    is_isolation: bool
    classes: tuple[ScarceClass, ...]
    is_trait_combination: bool


def find_broken_rules(cloud: Cloud, query: CandidatesQuery, root: Host) -> BrokenRules | None:
    """Return the broken rules, or None if the tree can serve the query."""
    combinations = list(_iterate_provider_combinations(cloud, query, root))

    def can_serve(changed: CandidatesQuery, ignored_class: str = "") -> bool:
        return any(
            _is_query_satisfied(cloud, changed, root, slots, chosen, ignored_class)
            for slots, chosen in combinations
        )

    if can_serve(query):
        return None
    groups = tuple(
        group if group.suffix else replace(group, traits=TraitTerms()) for group in query.groups
    )
    names = sorted({name for group in query.groups for name, _ in group.resources})
    return BrokenRules(
        query.isolates and can_serve(replace(query, group_policy="none")),
        tuple(
            _build_scarce_class(cloud, query, root, name)
            for name in names
            if can_serve(query, name)
        ),
        can_serve(replace(query, groups=groups)),
    )


def _build_scarce_class(cloud: Cloud, query: CandidatesQuery, root: Host, name: str) -> ScarceClass:
    slots = [slot for group in query.groups for slot in _split_group_into_slots(group)]
    slots = [slot for slot in slots if name in dict(slot.resources)]
    options = [
        host.inventories[name]
        for host in list_tree_and_sharing_providers(cloud, root)
        if any(can_provider_serve_slot(cloud, slot, host, root) for slot in slots)
    ]
    free = (used.capacity - used.used for used in options)
    amounts = tuple(dict(slot.resources)[name] for slot in slots)
    return ScarceClass(name, amounts, tuple(sorted(free, reverse=True)))
