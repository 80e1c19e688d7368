# SPDX-License-Identifier: Apache-2.0
"""The Placement API: routes, version negotiation and error responses."""

from placement_sched.api.blueprint import Api
from placement_sched.api.placement import (
    aggregates,
    allocation_candidates,
    allocations,
    inventories,
    openapi,
    reshaper,
    resource_classes,
    resource_providers,
    root,
    traits,
    usages,
)
from placement_sched.api.placement.microversions import VERSIONING
from placement_sched.api.placement.style import PlacementStyle

API = Api(
    "placement",
    PlacementStyle(VERSIONING),
    (
        root.blueprint,
        resource_providers.blueprint,
        inventories.blueprint,
        aggregates.blueprint,
        traits.blueprint,
        resource_classes.blueprint,
        allocations.blueprint,
        allocation_candidates.blueprint,
        usages.blueprint,
        reshaper.blueprint,
        openapi.blueprint,
    ),
)
