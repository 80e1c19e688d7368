"""The scheduler API: the routes of its nouns, and how it negotiates versions and reports errors."""

from collections.abc import Mapping
from http import HTTPStatus

from placement_sched.api.blueprint import Face, Seen
from placement_sched.api.call import Answer
from placement_sched.api.placement.style import PlacementStyle
from placement_sched.api.scheduler.routes import (
    capacity,
    compute_nodes,
    decisions,
    hosts,
    instances,
    plan,
    root,
    select_destinations,
)
from placement_sched.api.versions import Version, Versioning
from placement_sched.errors import Error

_FOREIGN = "placement."

#: The code of an error that has no special one of this API.
CODES: Mapping[int, str] = {
    HTTPStatus.BAD_REQUEST: "scheduler.bad_value",
    HTTPStatus.UNAUTHORIZED: "scheduler.unauthorized",
    HTTPStatus.FORBIDDEN: "scheduler.forbidden",
    HTTPStatus.NOT_FOUND: "scheduler.not_found",
    HTTPStatus.METHOD_NOT_ALLOWED: "scheduler.method_not_allowed",
    HTTPStatus.NOT_ACCEPTABLE: "scheduler.not_acceptable",
    HTTPStatus.CONFLICT: "scheduler.conflict",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "scheduler.too_large",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "scheduler.unsupported_media_type",
    HTTPStatus.INTERNAL_SERVER_ERROR: "scheduler.failed",
    HTTPStatus.SERVICE_UNAVAILABLE: "scheduler.unavailable",
}

#: Codes of the Placement API that are more specific than the status, and their names here.
ALSO_HERE: Mapping[str, str] = {
    "placement.concurrent_update": "scheduler.concurrent_update",
    "placement.duplicate_name": "scheduler.duplicate",
    "placement.query.too_complex": "scheduler.too_complex",
}


class SchedulerStyle(PlacementStyle):
    """Placement's shape, one version, and ``scheduler.*`` codes always."""

    checks_every_value = True

    def __init__(self) -> None:
        super().__init__(Versioning("scheduler", Version(1, 0), Version(1, 0)), codes_since=None)

    def error(self, error: Error, status: int, title: str, seen: Seen) -> Answer:
        """Return the error in placement's shape, under a code of this API."""
        if error.code.startswith(_FOREIGN):
            default = CODES.get(status, CODES[HTTPStatus.INTERNAL_SERVER_ERROR])
            error.code = ALSO_HERE.get(error.code, default)
        return self.in_json(error, status, title, seen)  # whatever the client accepts


_NOUNS = (root, capacity, compute_nodes, decisions, hosts, instances, plan, select_destinations)

FACE = Face("scheduler", SchedulerStyle(), [noun.blueprint for noun in _NOUNS])
