"""The route table of the scheduler API, by noun."""

from placement_sched.api.route import Route

ROUTES: tuple[Route, ...] = ()
