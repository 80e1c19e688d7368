"""Routes of ways to import image data, of which there is none."""

from placement_sched.api.call import Answer, Call
from placement_sched.api.route import Route


def index(call: Call) -> Answer:  # noqa: ARG001 - every handler's
    """Return that there is no way to import (Image API reference, "Image Service Info")."""
    methods = {"description": "Import methods available.", "type": "array", "value": []}
    return Answer(body={"import-methods": methods})


ROUTES = (
    Route(
        method="GET",
        path="/v2/info/import",
        handler=index,
        policy="get_image",
        statuses=(200, 401, 403),
    ),
)
