"""The route table of the Placement API, by noun."""

from placement_sched.api.placement.routes import (
    aggregates,
    allocation_candidates,
    allocations,
    inventories,
    reshaper,
    resource_classes,
    resource_providers,
    root,
    traits,
    usages,
)

ROUTES = (
    *root.ROUTES,
    *resource_providers.ROUTES,
    *inventories.ROUTES,
    *aggregates.ROUTES,
    *traits.ROUTES,
    *resource_classes.ROUTES,
    *allocations.ROUTES,
    *allocation_candidates.ROUTES,
    *usages.ROUTES,
    *reshaper.ROUTES,
)
