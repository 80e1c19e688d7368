# SPDX-License-Identifier: Apache-2.0
"""OpenAPI 3.1 documents of an API's routes.

A document describes a single microversion: its routes and their schemas (JSON Schema 2020-12, as in
OpenAPI 3.1). It also lists the responses that every route may give.

Source: OpenAPI Specification 3.1. ``x-openstack`` is defined by OpenStack's codegenerator.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from placement_sched.api.request import HTML, JSON, STATUS_PHRASES, TEXT
from placement_sched.api.routing import PARAMETER, Route
from placement_sched.api.validation import REPEATED, Schemas
from placement_sched.api.versions import AFTER_ALL_VERSIONS, BEFORE_ALL_VERSIONS, Version
from placement_sched.model.document import Json
from placement_sched.schemas.node_report import NOVA_OBJECT

_TOKEN = "token"  # noqa: S105 - the name of a security scheme
#: The query parameter that describes all keys with a pattern rather than a name.
_PATTERNED = "suffixed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """The API that a document describes, with its routes.

    At any version, a method and path have at most a single route. ``names`` are the schemas of the
    path parameters, ``errors`` is the schema of errors by version, and ``error_types`` are their
    media types. From ``dated_since`` on, answers have Last-Modified. ``about`` describes the API,
    with ``{version}`` for the version. ``schemas`` are named components: schemas that contain a
    component refer to it.
    """

    title: str
    service: str
    routes: tuple[Route, ...]
    names: Mapping[str, Json]
    errors: Schemas
    dated_since: Version = AFTER_ALL_VERSIONS
    error_types: tuple[str, ...] = (JSON, HTML, TEXT)
    about: str = (
        "As of microversion {version}. To get the document of another microversion, send "
        "the header OpenStack-API-Version."
    )
    schemas: Mapping[str, Json] = field(default_factory=dict)


def build_document(described: Description, version: Version, server: str) -> dict[str, Any]:
    """Build the OpenAPI document of ``version``, with ``server`` as its URL."""
    paths: dict[str, dict[str, Any]] = {}
    for route in described.routes:
        if route.serves(version):
            # The path in OpenAPI's syntax: ``/traits/{name}``. A path and the same path with a
            # final slash are served alike.
            path = PARAMETER.sub(r"{\1}", route.path).rstrip("/") or "/"
            operation = _build_operation(described, route, version)
            paths.setdefault(path, {})[route.method.lower()] = operation
    names_by_id = {id(schema): name for name, schema in described.schemas.items()}
    schemas = {
        name: {key: _refer(value, names_by_id) for key, value in schema.items()}
        for name, schema in described.schemas.items()
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": described.title,
            "version": str(version),
            "description": described.about.format(version=version),
        },
        "servers": [{"url": server}],
        "paths": _refer(paths, names_by_id),
        "components": {
            "schemas": {"Errors": _get_schema(described.errors, version), **schemas},
            "headers": _HEADERS,
            "securitySchemes": {_TOKEN: {"type": "apiKey", "in": "header", "name": "X-Auth-Token"}},
        },
    }


def _refer(value: Any, names_by_id: Mapping[int, str]) -> Any:
    """Replace components (compared by identity) by references to them."""
    if isinstance(value, dict):
        if name := names_by_id.get(id(value)):
            return {"$ref": f"#/components/schemas/{name}"}
        items = value.items()
        return {key: _refer(inner, names_by_id) for key, inner in items if key != NOVA_OBJECT}
    return [_refer(inner, names_by_id) for inner in value] if isinstance(value, list) else value


def _build_operation(described: Description, route: Route, version: Version) -> dict[str, Any]:
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": described.names[name]}
        for name in PARAMETER.findall(route.path)
    ]
    microversion = {
        "name": "OpenStack-API-Version",
        "in": "header",
        "description": "The microversion. The default is the oldest.",
        "schema": {"type": "string", "const": f"{described.service} {version}"},
    }
    operation: dict[str, Any] = {
        "operationId": f"{route.blueprint_name}.{route.handler.__name__}",
        "summary": (route.handler.__doc__ or route.blueprint_name).partition("\n")[0],
        "tags": [route.blueprint_name],
        "parameters": [*in_path, *_build_query_parameters(route, version), microversion],
        "responses": {
            str(status): _build_response(described, route, version, status)
            for status in sorted(route.statuses)
        },
        "security": [] if route.public else [{_TOKEN: []}],
    }
    if route.policy is not None:
        operation["x-policy"] = route.policy
    if route.body is not None:
        schema = route.documented_body or _get_schema(route.body, version)
        content = {kind: {"schema": schema} for kind in route.content_types}
        operation["requestBody"] = {"required": True, "content": content}
    window = {} if route.since == BEFORE_ALL_VERSIONS else {"min-ver": str(route.since)}
    if route.until != AFTER_ALL_VERSIONS:
        window["max-ver"] = str(route.until)
    return {**operation, "x-openstack": window} if window else operation


def _get_schema(schemas: Schemas, version: Version) -> Json:
    schema = schemas.find_schema(version)
    return {} if schema is None else schema.definition


def _build_query_parameters(route: Route, version: Version) -> Iterable[dict[str, Any]]:
    query = _get_schema(route.query, version) if route.query else {}
    schemas = dict(query.get("properties", {}))
    if "patternProperties" in query:
        # With "explode", each property of an object is a parameter.
        keys = ("type", "patternProperties", "additionalProperties")
        schemas[_PATTERNED] = {key: query[key] for key in keys}
    for name, schema in schemas.items():
        if schema.get(REPEATED):
            item = {key: value for key, value in schema.items() if key != REPEATED}
            schemas[name] = {"type": "array", "items": item}
        yield {
            "name": name,
            "in": "query",
            "required": name in query.get("required", ()),
            "schema": schemas[name],
            "style": "form",
            "explode": True,
        }


#: The schema of an error by media type: HTML or text for clients that accept no JSON.
_ERRORS: Json = {
    JSON: {"schema": {"$ref": "#/components/schemas/Errors"}},
    **{kind: {"schema": {"type": "string"}} for kind in (HTML, TEXT)},
}


def _build_response(
    described: Description, route: Route, version: Version, status: int
) -> dict[str, Any]:
    # The headers, except Content-Type and Content-Length.
    headers = ["X-Openstack-Request-Id", "OpenStack-API-Version", "Vary"]
    succeeds = status in route.success
    if route.located and succeeds:
        headers.append("Location")
    if route.is_dated and succeeds and version.has(described.dated_since):
        headers += ["Last-Modified", "Cache-Control"]
    if status == HTTPStatus.UNAUTHORIZED:
        headers.append("WWW-Authenticate")
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers.append("Retry-After")
    response: dict[str, Any] = {
        "description": STATUS_PHRASES[status],
        "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in headers},
    }
    if status >= HTTPStatus.BAD_REQUEST:
        response["content"] = {kind: _ERRORS[kind] for kind in described.error_types}
    elif route.response and (schema := route.response.find_schema(version)) is not None:
        response["content"] = {JSON: {"schema": schema.definition}}
    return response


def _build_header(description: str, *, required: bool = False, **schema: str) -> dict[str, Any]:
    return {
        "description": description,
        "required": required,
        "schema": {"type": "string", **schema},
    }


_HEADERS: Mapping[str, Any] = {
    "X-Openstack-Request-Id": _build_header(
        "The id of the request in the server's log.", required=True
    ),
    "OpenStack-API-Version": _build_header("The microversion used. Absent if negotiation failed."),
    "Vary": _build_header("OpenStack-API-Version. Absent if negotiation failed."),
    "Location": _build_header("The address of the created or existing object.", required=True),
    "Last-Modified": _build_header(
        "Time of the last change (now if unknown). Absent without content."
    ),
    "Cache-Control": _build_header("Caches validate the response before reuse.", required=True),
    "WWW-Authenticate": _build_header("The address of keystone, with auth_strategy = keystone."),
    "Retry-After": _build_header(
        "Seconds after which to retry.", required=True, pattern="^[0-9]+$"
    ),
}
