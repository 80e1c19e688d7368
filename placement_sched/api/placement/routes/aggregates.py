"""Routes of aggregates."""

from placement_sched.api.route import Route

ROUTES: tuple[Route, ...] = ()
