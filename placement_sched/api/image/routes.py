# SPDX-License-Identifier: Apache-2.0
"""The image API: its routes and error format."""

from collections.abc import Mapping

from werkzeug.datastructures import MIMEAccept
from werkzeug.http import parse_accept_header

from placement_sched.api.blueprint import Api, ApiConventions, ErrorContext
from placement_sched.api.call import ApiResponse
from placement_sched.api.image import image_schemas, images, versions
from placement_sched.api.response import HTML, TEXT, page
from placement_sched.api.versions import Headers, Version
from placement_sched.errors import Error

_JSON = "application/json"


class ImageStyle(ApiConventions):
    """glance's format: ``{"message": ..., "code": "404 Not Found", "title": "Not Found"}``.

    Only clients that request JSON get it. As in glance, the answer to ``*/*`` is HTML: glance's
    client sends ``*/*``, parses HTML and cannot parse this JSON.
    """

    def negotiate(self, headers: Headers) -> Version:  # noqa: ARG002 - the protocol's
        """Return the only version."""
        return versions.NEWEST

    def version_headers(self, version: Version) -> Mapping[str, str]:  # noqa: ARG002 - the protocol's
        """Return no headers, since the image API has no version headers."""
        return {}

    def error(self, error: Error, status: int, title: str, seen: ErrorContext) -> ApiResponse:
        """Return the error in glance's format."""
        accepted = parse_accept_header(seen.accept, MIMEAccept)
        kind = accepted.best_match([HTML, _JSON, TEXT]) or _JSON
        if kind == _JSON:
            body = {"message": error.detail, "code": f"{status} {title}", "title": title}
            return ApiResponse(status=status, body=body)
        return page(kind, status, title, [error.detail])


_RESOURCES = (versions, images, image_schemas)

API = Api("image", ImageStyle(), [resource.blueprint for resource in _RESOURCES])
