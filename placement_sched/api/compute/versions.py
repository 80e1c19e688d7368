# SPDX-License-Identifier: Apache-2.0
"""The version documents of the compute API."""

from typing import Any

from placement_sched.api.blueprint import Blueprint
from placement_sched.api.call import ApiCall, ApiResponse
from placement_sched.api.compute.microversions import VERSIONING

blueprint = Blueprint("versions", __name__)


@blueprint.get("/", public=True)
def index(call: ApiCall) -> ApiResponse:
    """List the major versions (compute API reference, "List All Major Versions")."""
    return ApiResponse(body={"versions": [_version(call)]})


@blueprint.get("/v2.1", public=True)
@blueprint.get("/v2.1/", public=True)
def show(call: ApiCall) -> ApiResponse:
    """Show the major version ("Show Details of Specific API Version")."""
    media_type = {
        "base": "application/json",
        "type": "application/vnd.openstack.compute+json;version=2.1",
    }
    return ApiResponse(body={"version": {**_version(call), "media-types": [media_type]}})


def _version(call: ApiCall) -> dict[str, Any]:
    return {
        "id": "v2.1",
        "status": "CURRENT",
        "version": str(VERSIONING.newest),
        "min_version": str(VERSIONING.oldest),
        "updated": "2013-07-23T11:33:21Z",
        "links": [{"rel": "self", "href": f"{call.url}/v2.1/"}],
    }
