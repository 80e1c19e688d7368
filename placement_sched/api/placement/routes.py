# SPDX-License-Identifier: Apache-2.0
"""Placement API: conventions, version and OpenAPI documents, and routes."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, cast

from flask import current_app
from webob.acceptparse import create_accept_header

from placement_sched.api import openapi, placement
from placement_sched.api.placement import (
    INTEGER,
    TEXT,
    UPPER_CASE,
    UUID,
    aggregates,
    allocation_candidates,
    allocations,
    build_links_schema,
    build_strict_object,
    build_unique_list,
    inventories,
    reshaper,
    resource_classes,
    resource_providers,
    traits,
    usages,
    with_last_modified,
)
from placement_sched.api.placement import microversions as mv
from placement_sched.api.placement.microversions import ERROR_CODES, VERSIONING
from placement_sched.api.request import HTML, JSON, NOT_FOUND, render_error_page
from placement_sched.api.request import TEXT as PLAIN_TEXT
from placement_sched.api.routing import Api, ApiCall, ApiResponse, Blueprint, ErrorContext, Route
from placement_sched.api.validation import Schemas
from placement_sched.api.versions import Headers, Version, Versioning
from placement_sched.errors import Error
from placement_sched.model.document import Json
from placement_sched.schemas.parts import build_list_schema, build_object_schema

openapi_blueprint = Blueprint("openapi", __name__)

_OBJECT = {"type": "object"}
_OPENAPI: Json = {"openapi": {"type": "string", "pattern": r"^3\.1\.[0-9]+$"}}
_OPENAPI |= dict.fromkeys(("info", "paths"), _OBJECT)
OPENAPI_RESPONSE = Schemas({"type": "object", "properties": _OPENAPI, "required": list(_OPENAPI)})

_REQUIRED: Json = dict.fromkeys(("status", "title", "detail", "request_id"), TEXT)
_PROPERTIES: Json = {
    **_REQUIRED,
    "status": INTEGER,
    # Present if the caller sent it.
    "global_request_id": TEXT,
    # Present if the requested microversion is not supported.
    "min_version": TEXT,
    "max_version": TEXT,
}
# Absent if a request is rejected before its microversion is parsed.
_CODE: Json = {"code": {"type": "string", "pattern": "^placement\\."}}
_root_blueprint = Blueprint("root", __name__)
_NUMBER = {"type": "string", "pattern": r"^[0-9]+\.[0-9]+$"}
_VERSION = build_strict_object(
    id=placement.TEXT,
    min_version=_NUMBER,
    max_version=_NUMBER,
    status=placement.TEXT,
    links=build_links_schema("self"),
)
_ROOT_RESPONSE = Schemas(build_strict_object(versions=build_unique_list(_VERSION)))


def _build_errors_schema(properties: Json) -> Json:
    return build_strict_object(
        errors=build_list_schema(build_object_schema(properties, *_REQUIRED), minItems=1)
    )


ERRORS = Schemas(
    (mv.OLDEST, _build_errors_schema(_PROPERTIES)),
    (mv.ERROR_CODES, _build_errors_schema({**_PROPERTIES, **_CODE})),
)


@openapi_blueprint.get(
    "/openapi.json", public=True, has_last_modified=False, response=OPENAPI_RESPONSE
)
def show_document(call: ApiCall) -> ApiResponse:
    """Show the OpenAPI document of the requested or newest microversion."""
    version = mv.VERSIONING.negotiate(call.headers, legacy="latest")
    api = cast("Api", current_app.blueprints["placement"])
    return ApiResponse(
        body=openapi.build_document(describe_openapi(api.routes), version, call.base or "/")
    )


def describe_openapi(routes: tuple[Route, ...]) -> openapi.Description:
    """Build the description of the routes for the OpenAPI document."""
    return openapi.Description(
        title="Placement API",
        service=mv.VERSIONING.service,
        routes=routes,
        names={
            **dict.fromkeys(("uuid", "consumer_uuid"), UUID),
            **dict.fromkeys(("resource_class", "name"), UPPER_CASE),
        },
        errors=ERRORS,
        dated_since=mv.LAST_MODIFIED,
    )


class PlacementConventions:
    """Conventions of the Placement API.

    Errors are ``{"errors": [{status, title, detail, code, request_id}]}`` for clients that accept
    JSON, else HTML or, if that is not accepted either, plain text. Errors have a code from version
    ``codes_since`` on, or always if it is None.
    """

    rejects_other_types = True
    checks_every_value = False

    def __init__(self, versioning: Versioning, codes_since: Version | None = ERROR_CODES) -> None:
        self._versioning = versioning
        self._codes_since = codes_since

    def negotiate(self, headers: Headers) -> Version:
        """Return the version that the ``OpenStack-API-Version`` header requests."""
        return self._versioning.negotiate(headers)

    def build_version_headers(self, version: Version) -> Mapping[str, str]:
        """Return the version headers of a response."""
        return {
            "OpenStack-API-Version": f"{self._versioning.service} {version}",
            # In lower case, as OpenStack placement sends it and test suites of its clients expect.
            "Vary": "openstack-api-version",
        }

    def render_error(
        self, error: Error, status: int, title: str, context: ErrorContext
    ) -> ApiResponse:
        """Render an error as JSON, HTML or plain text, whichever is accepted."""
        header = create_accept_header(context.accept or JSON)
        media_type = next(filter(lambda kind: header.acceptable_offers([kind]), (JSON, HTML)), None)
        if media_type == JSON:
            return self.render_json_error(error, status, title, context)
        # Clients of OpenStack placement expect this sentence on the page of any 404.
        first = [NOT_FOUND] if status == HTTPStatus.NOT_FOUND and error.detail != NOT_FOUND else []
        return render_error_page(media_type or PLAIN_TEXT, status, title, [*first, error.detail])

    def render_json_error(
        self, error: Error, status: int, title: str, context: ErrorContext
    ) -> ApiResponse:
        """Render an error in placement's JSON format."""
        document: dict[str, Any] = {"status": status, "title": title, "detail": error.detail}
        if self._codes_since is None or (
            context.version and context.version.has(self._codes_since)
        ):
            document["code"] = error.code
        document.update(context.ids.as_json())
        document.update(error.extra)
        if error.fault is not None and self._codes_since is None:  # placement has no such key
            document["fault"] = error.fault
        return ApiResponse(status=status, body={"errors": [document]})


@_root_blueprint.get("/", public=True, response=_ROOT_RESPONSE)
def show(call: ApiCall) -> ApiResponse:
    """List the supported versions (Placement API reference, "List Versions")."""
    document = {
        "id": "v1.0",
        "max_version": str(VERSIONING.newest),
        "min_version": str(VERSIONING.oldest),
        "status": "CURRENT",
        # A relative link is also correct if a proxy serves this API under another prefix.
        "links": [{"rel": "self", "href": ""}],
    }
    return with_last_modified(call, {"versions": [document]})


API = Api(
    "placement",
    PlacementConventions(VERSIONING),
    (
        _root_blueprint,
        resource_providers.blueprint,
        inventories.blueprint,
        aggregates.blueprint,
        traits.blueprint,
        resource_classes.blueprint,
        allocations.blueprint,
        allocation_candidates.blueprint,
        usages.blueprint,
        reshaper.blueprint,
        openapi_blueprint,
    ),
)
