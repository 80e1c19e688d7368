"""The route table of the identity API, by noun."""

from placement_sched.api.route import Route

ROUTES: tuple[Route, ...] = ()
