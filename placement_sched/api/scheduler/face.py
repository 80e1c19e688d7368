"""The route table of the scheduler API, by noun."""

from placement_sched.api.scheduler.routes import (
    compute_nodes,
    decisions,
    explain,
    instances,
    policies,
    root,
    select_destinations,
)

_RESOURCES = (
    *compute_nodes.ROUTES,
    *decisions.ROUTES,
    *instances.ROUTES,
    *policies.ROUTES,
    *select_destinations.ROUTES,
    *explain.ROUTES,
)

ROUTES = (*root.routes_above(_RESOURCES), *_RESOURCES)
