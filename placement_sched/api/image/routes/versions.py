"""The version documents of the image API."""

from typing import Any

from placement_sched.api.call import Answer, Call
from placement_sched.api.image.dialect import NEWEST
from placement_sched.api.route import Route


def choose(call: Call) -> Answer:
    """Return the versions with 300, as the image API's root does."""
    return Answer(status=300, body=_versions(call))


def index(call: Call) -> Answer:
    """Return the versions (Image API reference, "List API versions")."""
    return Answer(body=_versions(call))


def _versions(call: Call) -> dict[str, Any]:
    link = {"rel": "self", "href": f"{call.url}/v2/"}
    return {
        "versions": [
            {
                "id": f"v2.{minor}",
                "status": "CURRENT" if minor == NEWEST.minor else "SUPPORTED",
                "links": [link],
            }
            for minor in range(NEWEST.minor, -1, -1)
        ]
    }


ROUTES = (
    Route(method="GET", path="/", handler=choose, public=True, statuses=(300,)),
    Route(method="GET", path="/versions", handler=index, public=True),
    Route(method="GET", path="/versions/", handler=index, public=True),
    Route(method="GET", path="/v2", handler=index, public=True),
    Route(method="GET", path="/v2/", handler=index, public=True),
)
