"""The route table of the identity API, by noun."""

from placement_sched.api.identity.routes import versions

ROUTES = (*versions.ROUTES,)
