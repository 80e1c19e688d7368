"""The version document of the Placement API."""

from placement_sched.api.call import Answer, Call
from placement_sched.api.placement.last_modified import latest_change
from placement_sched.api.placement.microversions import VERSIONING
from placement_sched.api.placement.schemas import root as schemas
from placement_sched.api.route import Route


def show(call: Call) -> Answer:
    """Return the versions served (Placement API reference, "List Versions")."""
    document = {
        "id": "v1.0",
        "max_version": str(VERSIONING.newest),
        "min_version": str(VERSIONING.oldest),
        "status": "CURRENT",
        # Relative, and so right behind a proxy that knows this service by another prefix.
        "links": [{"rel": "self", "href": ""}],
    }
    return Answer(body={"versions": [document]}, last_modified=latest_change(call))


ROUTES = (
    Route(
        method="GET",
        path="/",
        handler=show,
        public=True,
        statuses=(200, 400, 406),
        answer=schemas.SHOW_ANSWER,
    ),
)
