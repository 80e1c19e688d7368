# SPDX-License-Identifier: Apache-2.0
"""The version documents of the image API."""

from typing import Any

from placement_sched.api.blueprint import Blueprint
from placement_sched.api.call import ApiCall, ApiResponse
from placement_sched.api.versions import Version

blueprint = Blueprint("versions", __name__)

#: The newest version in the document.
NEWEST = Version(2, 9)


@blueprint.get("/", public=True, success=(300,))
def choose(call: ApiCall) -> ApiResponse:
    """List the versions with status 300, as glance does at its root."""
    return ApiResponse(status=300, body=_versions(call))


@blueprint.get("/versions", public=True)
@blueprint.get("/versions/", public=True)
@blueprint.get("/v2", public=True)
@blueprint.get("/v2/", public=True)
def index(call: ApiCall) -> ApiResponse:
    """List the versions (Image API reference, "List API versions")."""
    return ApiResponse(body=_versions(call))


def _versions(call: ApiCall) -> dict[str, Any]:
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
