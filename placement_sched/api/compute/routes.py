# SPDX-License-Identifier: Apache-2.0
"""Compute API: versions, routes, version negotiation and error format."""

from collections.abc import Mapping
from typing import Any

from placement_sched.api.compute import (
    aggregates,
    flavors,
    hypervisors,
    migrations,
    server_groups,
    servers,
    services,
)
from placement_sched.api.compute.microversions import VERSIONING
from placement_sched.api.routing import (
    Api,
    ApiCall,
    ApiConventions,
    ApiResponse,
    Blueprint,
    ErrorContext,
)
from placement_sched.api.versions import Headers, NotAcceptable, Version
from placement_sched.errors import Error, Invalid

_versions_blueprint = Blueprint("versions", __name__)


@_versions_blueprint.get("/", public=True)
def index(call: ApiCall) -> ApiResponse:
    """List the major versions (compute API, "List All Major Versions")."""
    return ApiResponse(body={"versions": [_build_version(call)]})


@_versions_blueprint.get("/v2.1", public=True)
@_versions_blueprint.get("/v2.1/", public=True)
def show(call: ApiCall) -> ApiResponse:
    """Show the major version ("Show Details of Specific API Version")."""
    media_type = {
        "base": "application/json",
        "type": "application/vnd.openstack.compute+json;version=2.1",
    }
    return ApiResponse(body={"version": {**_build_version(call), "media-types": [media_type]}})


def _build_version(call: ApiCall) -> dict[str, Any]:
    return {
        "id": "v2.1",
        "status": "CURRENT",
        "version": str(VERSIONING.newest),
        "min_version": str(VERSIONING.oldest),
        "updated": "2013-07-23T11:33:21Z",
        "links": [{"rel": "self", "href": f"{call.url}/v2.1/"}],
    }


HEADER = "OpenStack-API-Version"
LEGACY_HEADER = "X-OpenStack-Nova-API-Version"

#: The only key in the body of an error, by status (compute API guide, "Faults").
FAULTS: Mapping[int, str] = {
    400: "badRequest",
    401: "unauthorized",
    403: "forbidden",
    404: "itemNotFound",
    405: "badMethod",
    409: "conflictingRequest",
    413: "overLimit",
    415: "badMediaType",
    501: "notImplemented",
    503: "serviceUnavailable",
}


class ComputeConventions(ApiConventions):
    """nova's version headers and errors (``{"itemNotFound": {...}}``)."""

    def negotiate(self, headers: Headers) -> Version:
        """Return the version of the newer header, else of the older header.

        Raises :class:`Invalid`, or :class:`NotAcceptable` for a version out of range.
        """
        legacy = headers.get(LEGACY_HEADER)
        try:
            return VERSIONING.negotiate(headers, legacy)
        except (NotAcceptable, Invalid) as error:
            version, words = legacy or "", (headers.get(HEADER) or "").split()
            if VERSIONING.service in words[:-1]:
                version = words[words.index(VERSIONING.service) + 1].rstrip(",")
            if isinstance(error, Invalid):
                raise Invalid(
                    f"API Version String {version} is of invalid format. "
                    "Must be of format MajorNum.MinorNum."
                ) from None
            raise NotAcceptable(
                f"Version {version} is not supported by the API. "
                f"Minimum is {VERSIONING.oldest} and maximum is {VERSIONING.newest}."
            ) from None

    def build_version_headers(self, version: Version) -> Mapping[str, str]:
        """Return the version headers of a response, the current and the older."""
        return {
            HEADER: f"{VERSIONING.service} {version}",
            LEGACY_HEADER: str(version),
            "Vary": f"{HEADER}, {LEGACY_HEADER}",
        }

    def render_error(
        self,
        error: Error,
        status: int,
        title: str,  # noqa: ARG002 - for other APIs
        context: ErrorContext,  # noqa: ARG002 - for other APIs
    ) -> ApiResponse:
        """Return the error in nova's format."""
        fault = FAULTS.get(status, "computeFault")
        return ApiResponse(status=status, body={fault: {"code": status, "message": error.detail}})


API = Api(
    "compute",
    ComputeConventions(),
    (
        _versions_blueprint,
        aggregates.blueprint,
        flavors.blueprint,
        flavors.extra_specs_blueprint,
        server_groups.blueprint,
        services.blueprint,
        hypervisors.blueprint,
        aggregates.zones_blueprint,
        servers.blueprint,
        migrations.blueprint,
    ),
)
