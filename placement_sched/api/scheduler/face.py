"""The route table of the scheduler API, by noun."""

from placement_sched.api.scheduler.routes import compute_nodes, instances, root

ROUTES = (
    *root.ROUTES,
    *compute_nodes.ROUTES,
    *instances.ROUTES,
)
