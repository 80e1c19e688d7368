"""Routes of inventories."""

from placement_sched.api.route import Route

ROUTES: tuple[Route, ...] = ()
