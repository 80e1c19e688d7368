"""The route table of the compute API, by noun."""

from placement_sched.api.compute.routes import os_aggregates, versions

ROUTES = (
    *versions.ROUTES,
    *os_aggregates.ROUTES,
)
