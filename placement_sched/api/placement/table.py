"""The routes of the nouns of the Placement API."""

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

NOUNS = (
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
