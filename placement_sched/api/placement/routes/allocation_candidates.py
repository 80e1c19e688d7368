"""Routes of allocation candidates."""

from placement_sched.api.route import Route

ROUTES: tuple[Route, ...] = ()
