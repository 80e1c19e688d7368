# SPDX-License-Identifier: Apache-2.0
"""Hosts that fit a request, found by the naive reference search."""

from dataclasses import asdict

from placement_sched.model import provider as model
from placement_sched.model.candidates_query import (
    AggregateTerms,
    CandidatesQuery,
    RequestGroup,
    TraitTerms,
)
from tests.candidates.reference import find_candidates_by_tree, list_tree_and_sharing_providers
from tests.checker.cloud import DISABLED_TRAIT, Cloud, Provider
from tests.checker.requests import CloudRequest
from tests.support import clouds
from tests.support.clouds import uuid_of


def find_fitting_hosts(cloud: Cloud, request: CloudRequest) -> set[str]:
    candidates = find_candidates_by_tree(convert_cloud(cloud), build_query(cloud, request))
    return {
        name for name in cloud.hosts if candidates[uuid_of(name)] and name not in cloud.disabled
    }


def find_usable_providers(cloud: Cloud, root: Provider) -> list[Provider]:
    """Return the providers of a tree and the providers that share with it."""
    converted = convert_cloud(cloud)
    hosts = list_tree_and_sharing_providers(converted, converted[root.name])
    names = {host.name for host in hosts}
    return [provider for provider in cloud.providers.values() if provider.name in names]


def convert_cloud(cloud: Cloud) -> clouds.Cloud:
    """Convert a cloud, with the uuid of each aggregate as its name."""
    return clouds.Cloud(
        tuple(
            clouds.Host(
                provider.name,
                {
                    name: clouds.InventoryUsage(
                        model.Inventory(resource_class=name, **asdict(inventory)),
                        cloud.sum_used_amounts(provider.uuid, name),
                    )
                    for name, inventory in provider.inventories.items()
                },
                provider.traits,
                provider.aggregates,
                cloud.providers[provider.parent].name if provider.parent else None,
            )
            for provider in cloud.providers.values()
        )
    )


def build_query(cloud: Cloud, request: CloudRequest) -> CandidatesQuery:
    """Build the query with the constraints that request filters add."""
    return CandidatesQuery(
        groups=tuple(
            RequestGroup(
                suffix=suffix,
                resources=tuple(group.resources.items()),
                traits=TraitTerms(
                    tuple(frozenset({name}) for name in group.required), group.forbidden
                ),
                aggregates=AggregateTerms() if suffix else _build_aggregate_terms(cloud, request),
            )
            for suffix, group in request.groups.items()
        ),
        group_policy="isolate" if request.isolate else "none",
        root=TraitTerms(forbidden=frozenset({DISABLED_TRAIT})),
    )


def _build_aggregate_terms(cloud: Cloud, request: CloudRequest) -> AggregateTerms:
    """Require an aggregate of the zone, and forbid aggregates that require other traits."""
    aggregates = cloud.aggregates.values()
    zones = {uuid_of(aggregate.uuid) for aggregate in aggregates if aggregate.zone == request.zone}
    required = frozenset().union(*(group.required for group in request.groups.values()))
    return AggregateTerms(
        member_of=(frozenset(zones),) if request.zone else (),
        forbidden=frozenset(
            uuid_of(aggregate.uuid)
            for aggregate in aggregates
            if not aggregate.required <= required
        ),
    )
