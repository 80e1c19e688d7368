"""Routes of resource providers."""

from placement_sched.api.route import Route

ROUTES: tuple[Route, ...] = ()
