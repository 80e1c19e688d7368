"""The version documents of the compute API."""

from typing import Any

from placement_sched.api.call import Answer, Call
from placement_sched.api.compute.microversions import VERSIONING
from placement_sched.api.route import Route


def index(call: Call) -> Answer:
    """Return the major versions served (compute API reference, "List All Major Versions")."""
    return Answer(body={"versions": [_version(call)]})


def show(call: Call) -> Answer:
    """Return the one major version ("Show Details of Specific API Version")."""
    media_type = {
        "base": "application/json",
        "type": "application/vnd.openstack.compute+json;version=2.1",
    }
    return Answer(body={"version": {**_version(call), "media-types": [media_type]}})


def _version(call: Call) -> dict[str, Any]:
    return {
        "id": "v2.1",
        "status": "CURRENT",
        "version": str(VERSIONING.newest),
        "min_version": str(VERSIONING.oldest),
        "updated": "2013-07-23T11:33:21Z",
        "links": [{"rel": "self", "href": f"{call.url}/v2.1/"}],
    }


ROUTES = (
    Route(method="GET", path="/", handler=index, public=True),
    Route(method="GET", path="/v2.1", handler=show, public=True),
    Route(method="GET", path="/v2.1/", handler=show, public=True),
)
