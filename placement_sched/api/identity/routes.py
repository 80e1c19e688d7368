# SPDX-License-Identifier: Apache-2.0
"""The identity API: its routes and error format."""

from collections.abc import Mapping

from placement_sched.api.blueprint import Api, ApiConventions, ErrorContext
from placement_sched.api.call import ApiResponse
from placement_sched.api.identity import versions
from placement_sched.api.versions import Headers, Version
from placement_sched.errors import Error


class IdentityStyle(ApiConventions):
    """keystone's format: ``{"error": {"code": 403, "message": ..., "title": "Forbidden"}}``."""

    rejects_other_types = True

    def negotiate(self, headers: Headers) -> Version:  # noqa: ARG002 - the protocol's
        """Return the only version."""
        return versions.NEWEST

    def version_headers(self, version: Version) -> Mapping[str, str]:  # noqa: ARG002 - the protocol's
        """Return the Vary header of keystone."""
        return {"Vary": "X-Auth-Token"}

    def error(self, error: Error, status: int, title: str, seen: ErrorContext) -> ApiResponse:  # noqa: ARG002 - the protocol's
        """Return the error in keystone's format."""
        document = {"code": status, "message": error.detail, "title": title}
        return ApiResponse(status=status, body={"error": document})


API = Api("identity", IdentityStyle(), (versions.blueprint,))
