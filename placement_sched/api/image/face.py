"""The route table of the image API, by noun."""

from placement_sched.api.route import Route

ROUTES: tuple[Route, ...] = ()
