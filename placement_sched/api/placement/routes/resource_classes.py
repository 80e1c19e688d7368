"""Routes of resource classes."""

from placement_sched.api.route import Route

ROUTES: tuple[Route, ...] = ()
