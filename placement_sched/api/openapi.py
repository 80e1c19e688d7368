"""Turns a route table into an OpenAPI 3.1 document, from its data alone.

One document describes one microversion: the routes served at it, with the schemas in force then
(which are of JSON Schema 2020-12, as OpenAPI 3.1 has them). Beside what a route promises, the
document lists what the face answers on any route.

Source: OpenAPI Specification 3.1; ``x-openstack`` is as in OpenStack's codegenerator.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from placement_sched.api.blueprint import PARAMETER, Route
from placement_sched.api.response import HTML, JSON, TEXT
from placement_sched.api.validation import REPEATED, Schemas
from placement_sched.api.versions import EVER, NEVER, Version
from placement_sched.model.document import Json

_TOKEN = "token"  # noqa: S105 - the name of a security scheme
#: The one query parameter whose properties stand for keys that have a pattern, not a name.
_PATTERNED = "suffixed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What a document describes: a face's name, the service its version header names, its routes.

    At any one version at most one of the routes serves a method on a path. ``names`` are the
    schemas of what a path names, by parameter; ``errors`` is the body of every refusal, by version.
    From ``dated_since`` on, answers have Last-Modified.
    """

    title: str
    service: str
    routes: tuple[Route, ...]
    names: Mapping[str, Json]
    errors: Schemas
    dated_since: Version


def document(described: Description, version: Version, server: str) -> dict[str, Any]:
    """Return the OpenAPI document of ``described`` at ``version``, mounted at ``server``."""
    paths: dict[str, dict[str, Any]] = {}
    for route in described.routes:
        if route.serves(version):
            # As OpenAPI writes it: ``/traits/{name}``.
            path = paths.setdefault(PARAMETER.sub(r"{\1}", route.path), {})
            path[route.method.lower()] = _operation(described, route, version)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": described.title,
            "version": str(version),
            "description": (
                f"As of microversion {version}. Ask with the header OpenStack-API-Version for the "
                "document of another one."
            ),
        },
        "servers": [{"url": server}],
        "paths": paths,
        "components": {
            "schemas": {"Errors": _schema(described.errors, version)},
            "headers": _HEADERS,
            "securitySchemes": {_TOKEN: {"type": "apiKey", "in": "header", "name": "X-Auth-Token"}},
        },
    }


def _operation(described: Description, route: Route, version: Version) -> dict[str, Any]:
    noun = route.handler.__module__.rpartition(".")[2]
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": described.names[name]}
        for name in PARAMETER.findall(route.path)
    ]
    microversion = {
        "name": "OpenStack-API-Version",
        "in": "header",
        "description": "The microversion; without one the oldest.",
        "schema": {"type": "string", "const": f"{described.service} {version}"},
    }
    operation: dict[str, Any] = {
        "operationId": f"{noun}.{route.handler.__name__}",
        "summary": (route.handler.__doc__ or noun).partition("\n")[0],
        "tags": [noun],
        "parameters": [*in_path, *_query(route, version), microversion],
        "responses": {
            str(status): _response(described, route, version, status)
            for status in sorted(route.statuses)
        },
        "security": [] if route.public else [{_TOKEN: []}],
    }
    if route.body is not None:
        schema = _schema(route.body, version)
        content = {kind: {"schema": schema} for kind in route.content_types}
        operation["requestBody"] = {"required": True, "content": content}
    window = {} if route.since == EVER else {"min-ver": str(route.since)}
    if route.until != NEVER:
        window["max-ver"] = str(route.until)
    return {**operation, "x-openstack": window} if window else operation


def _schema(schemas: Schemas, version: Version) -> Json:
    """Return the schema in force; where there is none, the one that anything fits."""
    schema = schemas.at(version)
    return {} if schema is None else schema.definition


def _query(route: Route, version: Version) -> Iterable[dict[str, Any]]:
    query = _schema(route.query, version) if route.query else {}
    required = query.get("required", ())
    for name, schema in query.get("properties", {}).items():
        yield _query_parameter(name, schema, required=name in required)
    if "patternProperties" in query:
        # Exploded, the properties of an object are parameters of their own.
        groups = {key: query[key] for key in ("type", "patternProperties", "additionalProperties")}
        yield _query_parameter(_PATTERNED, groups, required=False)


def _query_parameter(name: str, schema: Json, *, required: bool) -> dict[str, Any]:
    if schema.get(REPEATED):
        one = {key: value for key, value in schema.items() if key != REPEATED}
        schema = {"type": "array", "items": one}
    parameter = {"name": name, "in": "query", "required": required, "schema": schema}
    return {**parameter, "style": "form", "explode": True}


#: Errors are HTML or text for clients that accept no JSON.
_ERRORS: Json = {
    JSON: {"schema": {"$ref": "#/components/schemas/Errors"}},
    **{kind: {"schema": {"type": "string"}} for kind in (HTML, TEXT)},
}


def _response(
    described: Description, route: Route, version: Version, status: int
) -> dict[str, Any]:
    """Return what is said of one status: a success has the route's body, a refusal the face's."""
    # The headers, except those that describe the body.
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
        "description": HTTPStatus(status).phrase,
        "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in headers},
    }
    if status >= HTTPStatus.BAD_REQUEST:
        response["content"] = _ERRORS
    elif route.answer and (found := route.answer.at(version)) is not None:
        response["content"] = {JSON: {"schema": found.definition}}
    return response


def _header(description: str, *, required: bool = False, **schema: str) -> dict[str, Any]:
    return {
        "description": description,
        "required": required,
        "schema": {"type": "string", **schema},
    }


_HEADERS: Mapping[str, Any] = {
    "X-Openstack-Request-Id": _header("Names the request in the server's log.", required=True),
    "OpenStack-API-Version": _header("The microversion used; absent if none could be negotiated."),
    "Vary": _header(
        "That the answer depends on OpenStack-API-Version; absent if none could be negotiated."
    ),
    "Location": _header("The address of what was made or found.", required=True),
    "Last-Modified": _header("Time of the last change (now, if unknown); absent without content."),
    "Cache-Control": _header("That caches have to request the answer again.", required=True),
    "WWW-Authenticate": _header("Where to get a token, with auth_strategy = keystone."),
    "Retry-After": _header("Seconds after which to retry.", required=True, pattern="^[0-9]+$"),
}
