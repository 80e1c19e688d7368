# SPDX-License-Identifier: Apache-2.0
"""Identity API: version documents, and 403 for all paths below ``/v3/``.

The ``openstack`` client reads the version documents before some commands, and looks up projects
and users. After 403, the client uses the id from its command line. After 404, it would report that
the project does not exist.
"""

from collections.abc import Mapping
from typing import Any

from placement_sched.api.routing import (
    Api,
    ApiCall,
    ApiConventions,
    ApiResponse,
    Blueprint,
    ErrorContext,
)
from placement_sched.api.versions import Headers, Version
from placement_sched.errors import Error, Forbidden

blueprint = Blueprint("versions", __name__)

#: The version in the document.
NEWEST = Version(3, 14)


@blueprint.get("/", public=True, success=(300,))
def choose(call: ApiCall) -> ApiResponse:
    """List the versions with status 300 (identity API, "List versions")."""
    return ApiResponse(status=300, body={"versions": {"values": [_build_version(call)]}})


@blueprint.get("/v3", public=True)
@blueprint.get("/v3/", public=True)
def show(call: ApiCall) -> ApiResponse:
    """Show the version (Identity API reference, "Show v3 version details")."""
    return ApiResponse(body={"version": _build_version(call)})


@blueprint.route(
    "/v3/<path:below>",
    methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"],
    public=True,
    success=(),
    errors=(403,),
)
def reject_request(call: ApiCall, below: str) -> ApiResponse:  # noqa: ARG001 - a handler's
    """Reject every request for projects, users and tokens."""
    raise Forbidden("This service does not store identities. Use Keystone.")


def _build_version(call: ApiCall) -> dict[str, Any]:
    return {
        "id": f"v{NEWEST}",
        "status": "stable",
        "updated": "2020-04-07T00:00:00Z",
        "links": [{"rel": "self", "href": f"{call.url}/v3/"}],
        "media-types": [
            {"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}
        ],
    }


class IdentityConventions(ApiConventions):
    """Keystone's error format: ``{"error": {"code", "message", "title"}}``."""

    rejects_other_types = True

    def negotiate(self, headers: Headers) -> Version:  # noqa: ARG002 - the protocol's
        """Return the only version."""
        return NEWEST

    def build_version_headers(self, version: Version) -> Mapping[str, str]:  # noqa: ARG002 - the protocol's
        """Return the Vary header of keystone."""
        return {"Vary": "X-Auth-Token"}

    def render_error(
        self,
        error: Error,
        status: int,
        title: str,
        context: ErrorContext,  # noqa: ARG002 - for other APIs
    ) -> ApiResponse:
        """Return the error in keystone's format."""
        document = {"code": status, "message": error.detail, "title": title}
        return ApiResponse(status=status, body={"error": document})


API = Api("identity", IdentityConventions(), (blueprint,))
