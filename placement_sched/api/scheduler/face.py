"""The route table of the scheduler API, by noun."""

from placement_sched.api.scheduler.routes import (
    compute_nodes,
    explain,
    instances,
    root,
    select_destinations,
)

ROUTES = (
    *root.ROUTES,
    *compute_nodes.ROUTES,
    *instances.ROUTES,
    *select_destinations.ROUTES,
    *explain.ROUTES,
)
