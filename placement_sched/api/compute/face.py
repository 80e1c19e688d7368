"""The route table of the compute API, by noun."""

from placement_sched.api.route import Route

ROUTES: tuple[Route, ...] = ()
