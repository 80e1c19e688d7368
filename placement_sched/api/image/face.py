"""The route table of the image API, by noun."""

from placement_sched.api.image.routes import versions

ROUTES = (*versions.ROUTES,)
