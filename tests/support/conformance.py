# SPDX-License-Identifier: Apache-2.0
"""Comparison of API responses with the OpenAPI documents."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import jsonschema_rs
import orjson

from placement_sched.api import openapi
from placement_sched.api.application import Application
from placement_sched.api.placement import routes as placement
from placement_sched.api.placement.routes import API as PLACEMENT
from placement_sched.api.scheduler import routes as scheduler
from placement_sched.api.scheduler.routes import API as SCHEDULER
from placement_sched.api.versions import Version
from placement_sched.schemas.formats import CHECKS

#: The description of each API by its service, which is also its prefix.
OPENAPI_DESCRIPTIONS = {
    "placement": placement.describe_openapi(PLACEMENT.routes),
    "scheduler": scheduler.describe_openapi(SCHEDULER.routes),
}
#: Statuses of requests without an operation: no token, unknown path, unknown method.
STATUSES_WITHOUT_OPERATION = {"401", "404", "405"}
#: Statuses of responses without a microversion.
STATUSES_WITHOUT_MICROVERSION = {"400", "401", "406"}
#: Headers that the document describes with the body.
BODY_HEADER_NAMES = {"content-type", "content-length"}


@dataclass(frozen=True)
class HttpExchange:
    """A request and its response in WSGI's terms, with header names in lower case."""

    method: str
    path: str
    status: str
    headers: Mapping[str, str]
    body: bytes

    def __str__(self) -> str:
        version = self.headers.get("openstack-api-version")
        return f"{self.method} {self.path} at {version}: {self.status} {self.body[:500]!r}"


class OpenApiDocument:
    """The OpenAPI document of a microversion, and validators of its schemas."""

    def __init__(self, version: Version, service: str = "placement") -> None:
        self.tree = openapi.build_document(OPENAPI_DESCRIPTIONS[service], version, f"/{service}")
        self._operations = [
            (_build_path_pattern(path), method.upper(), operation)
            for path, methods in self.tree["paths"].items()
            for method, operation in methods.items()
        ]
        self._validators: dict[tuple[str, str], jsonschema_rs.Validator] = {}

    def operation(self, method: str, path: str) -> Mapping[str, Any] | None:
        """Return the operation of a method and a path below the prefix, or None."""
        path = "/v1" if path == "/v1/" else path
        for pattern, served, operation in self._operations:
            if served == method and pattern.fullmatch(path):
                return operation
        return None

    def check_exchange(self, exchange: HttpExchange) -> None:
        """Fail if a response differs from its description."""
        operation = self.operation(exchange.method, exchange.path)
        if operation is None:
            assert exchange.status in STATUSES_WITHOUT_OPERATION, f"no operation, yet {exchange}"
            return
        responses = operation["responses"]
        assert exchange.status in responses, f"undocumented {exchange}"
        response = responses[exchange.status]
        self._check_headers(exchange, response["headers"])
        content = response.get("content", {})
        if not content:
            assert exchange.body == b"", f"undocumented body of {exchange}"
            return
        kind = exchange.headers["content-type"].removesuffix("; charset=UTF-8")
        assert kind in content, f"undocumented type of body in {exchange}"
        if kind != "application/json":
            return
        schema = content[kind]["schema"]
        checker = self._get_schema_validator(operation["operationId"], exchange.status, schema)
        faults = [fault.message for fault in checker.iter_errors(orjson.loads(exchange.body))]
        assert not faults, f"{exchange} is not as documented: {faults}"

    def _check_headers(self, exchange: HttpExchange, documented: Iterable[str]) -> None:
        """Fail if the document and the response have different headers."""
        for name in documented:
            header = self.tree["components"]["headers"][name]
            value = exchange.headers.get(name.lower())
            assert value is not None or not header["required"], f"no {name} in {exchange}"
            assert value is None or jsonschema_rs.is_valid(header["schema"], value), (
                f"{name}: {value} in {exchange}"
            )
        undocumented = (
            set(exchange.headers) - {name.lower() for name in documented} - BODY_HEADER_NAMES
        )
        assert not undocumented, f"undocumented headers {undocumented} in {exchange}"

    def _get_schema_validator(
        self, operation: str, status: str, schema: Mapping[str, Any]
    ) -> jsonschema_rs.Validator:
        key = operation, status
        if key not in self._validators:
            whole = {**schema, "components": self.tree["components"]}
            self._validators[key] = jsonschema_rs.validator_for(
                whole, formats=dict(CHECKS), validate_formats=True
            )
        return self._validators[key]


def _build_path_pattern(path: str) -> re.Pattern[str]:
    """Compile a path with its parameters. WSGI has decoded a slash in a host's name."""
    escaped = re.escape(path).replace(r"\{host\}", ".+")
    return re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", escaped), re.DOTALL)


@cache
def build_openapi_document(version: Version, service: str = "placement") -> OpenApiDocument:
    return OpenApiDocument(version, service)


class CheckedApplication:
    """A WSGI application that compares its responses with the OpenAPI documents."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self.services = application.services

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        service = path.split("/")[1] if "/" in path else ""
        if service not in OPENAPI_DESCRIPTIONS:
            return self._application(environ, start_response)
        response: list[Any] = []

        def record_response_start(status: str, headers: list[tuple[str, str]], *rest: Any) -> None:
            response[:] = [status, headers, *rest]

        method, below = environ["REQUEST_METHOD"], path.removeprefix(f"/{service}") or "/"
        body = b"".join(self._application(environ, record_response_start))
        headers = {name.lower(): value for name, value in response[1]}
        check_exchange(HttpExchange(method, below, response[0][:3], headers, body))
        start_response(*response)
        return [body]


def check_exchange(exchange: HttpExchange) -> None:
    """Fail if a response differs from the document of its microversion."""
    microversion = exchange.headers.get("openstack-api-version")
    if microversion is None:
        assert exchange.status in STATUSES_WITHOUT_MICROVERSION, f"no microversion: {exchange}"
        return
    service, _, number = microversion.partition(" ")
    assert service in OPENAPI_DESCRIPTIONS
    major, _, minor = number.partition(".")
    build_openapi_document(Version(int(major), int(minor)), service).check_exchange(exchange)
