"""The route table of the compute API, by noun."""

from placement_sched.api.compute.routes import (
    flavors,
    os_aggregates,
    os_availability_zone,
    os_extra_specs,
    os_hypervisors,
    os_server_groups,
    os_services,
    servers,
    versions,
)

ROUTES = (
    *versions.ROUTES,
    *os_aggregates.ROUTES,
    *flavors.ROUTES,
    *os_extra_specs.ROUTES,
    *os_server_groups.ROUTES,
    *os_services.ROUTES,
    *os_hypervisors.ROUTES,
    *os_availability_zone.ROUTES,
    *servers.ROUTES,
)
