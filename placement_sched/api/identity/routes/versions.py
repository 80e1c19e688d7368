"""The version documents of the identity API, and the refusal of all the rest.

The ``openstack`` client asks for these before some commands, and looks projects and users up
below them. This service keeps neither: 403 makes the client go by the ids it was given, where
404 would make it think that the project it names does not exist.
"""

from typing import Any

from placement_sched.api.call import Answer, Call
from placement_sched.api.identity.dialect import NEWEST
from placement_sched.api.route import Route
from placement_sched.errors import Forbidden


def choose(call: Call) -> Answer:
    """Return the versions with 300 (Identity API reference, "List versions")."""
    return Answer(status=300, body={"versions": {"values": [_version(call)]}})


def show(call: Call) -> Answer:
    """Return the one version (Identity API reference, "Show v3 version details")."""
    return Answer(body={"version": _version(call)})


def refuse(call: Call, below: str) -> Answer:
    """Refuse whatever is asked of projects, users and tokens."""
    raise Forbidden(f"{call.base}/v3/{below} is not for you: no identities are kept here.")


def _version(call: Call) -> dict[str, Any]:
    return {
        "id": f"v{NEWEST}",
        "status": "stable",
        "updated": "2020-04-07T00:00:00Z",
        "links": [{"rel": "self", "href": f"{call.url}/v3/"}],
        "media-types": [
            {"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}
        ],
    }


ROUTES = (
    Route(method="GET", path="/", handler=choose, public=True, statuses=(300,)),
    Route(method="GET", path="/v3", handler=show, public=True),
    Route(method="GET", path="/v3/", handler=show, public=True),
    *(
        Route(method=method, path="/v3/<path:below>", handler=refuse, public=True, statuses=(403,))
        for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
    ),
)
