# SPDX-License-Identifier: Apache-2.0
"""Compare answers of the Placement and scheduler APIs with their OpenAPI documents."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import jsonschema_rs
import orjson

from placement_sched.api import openapi
from placement_sched.api.application import Application
from placement_sched.api.placement import openapi as placement
from placement_sched.api.placement.routes import API as PLACEMENT
from placement_sched.api.scheduler import openapi as scheduler
from placement_sched.api.scheduler.routes import API as SCHEDULER
from placement_sched.api.versions import Version
from placement_sched.schemas.formats import CHECKS

#: The description of each API by its service, which is also its prefix.
DESCRIPTIONS = {
    "placement": placement.describe(PLACEMENT.routes),
    "scheduler": scheduler.describe(SCHEDULER.routes),
}
#: What is answered where no operation is: no token, no such path, no such method.
NO_OPERATION = {"401", "404", "405"}
#: What is answered before a microversion is agreed on.
NO_VERSION = {"400", "401", "406"}
#: Headers that tell of the body, of which the document tells elsewhere.
OF_BODY = {"content-type", "content-length"}


@dataclass(frozen=True)
class Exchange:
    """A request and its answer, as WSGI has them; header names in lower case."""

    method: str
    path: str
    status: str
    headers: Mapping[str, str]
    body: bytes

    def __str__(self) -> str:
        version = self.headers.get("openstack-api-version")
        return f"{self.method} {self.path} at {version}: {self.status} {self.body[:500]!r}"


class Document:
    """The document of one version, ready to hold answers against."""

    def __init__(self, version: Version, service: str = "placement") -> None:
        self.tree = openapi.document(DESCRIPTIONS[service], version, f"/{service}")
        self._operations = [
            (_pattern(path), method.upper(), operation)
            for path, methods in self.tree["paths"].items()
            for method, operation in methods.items()
        ]
        self._checkers: dict[tuple[str, str], jsonschema_rs.Validator] = {}

    def operation(self, method: str, path: str) -> Mapping[str, Any] | None:
        """The operation that serves ``path`` (below the prefix), or None."""
        path = "/v1" if path == "/v1/" else path
        for pattern, served, operation in self._operations:
            if served == method and pattern.fullmatch(path):
                return operation
        return None

    def check(self, answered: Exchange) -> None:
        """Fail where the answer is not as documented."""
        operation = self.operation(answered.method, answered.path)
        if operation is None:
            assert answered.status in NO_OPERATION, f"no operation, yet {answered}"
            return
        responses = operation["responses"]
        assert answered.status in responses, f"undocumented {answered}"
        response = responses[answered.status]
        self._check_headers(answered, response["headers"])
        content = response.get("content", {})
        if not content:
            assert answered.body == b"", f"undocumented body of {answered}"
            return
        kind = answered.headers["content-type"].removesuffix("; charset=UTF-8")
        assert kind in content, f"undocumented type of body in {answered}"
        if kind != "application/json":
            return
        schema = content[kind]["schema"]
        checker = self._checker(operation["operationId"], answered.status, schema)
        faults = [fault.message for fault in checker.iter_errors(orjson.loads(answered.body))]
        assert not faults, f"{answered} is not as documented: {faults}"

    def _check_headers(self, answered: Exchange, documented: Iterable[str]) -> None:
        """Fail where a documented header is not sent, or one that is sent is not documented."""
        for name in documented:
            header = self.tree["components"]["headers"][name]
            told = answered.headers.get(name.lower())
            assert told is not None or not header["required"], f"no {name} in {answered}"
            assert told is None or jsonschema_rs.is_valid(header["schema"], told), (
                f"{name}: {told} in {answered}"
            )
        strange = set(answered.headers) - {name.lower() for name in documented} - OF_BODY
        assert not strange, f"undocumented headers {strange} in {answered}"

    def _checker(
        self, operation: str, status: str, schema: Mapping[str, Any]
    ) -> jsonschema_rs.Validator:
        key = operation, status
        if key not in self._checkers:
            whole = {**schema, "components": self.tree["components"]}
            self._checkers[key] = jsonschema_rs.validator_for(
                whole, formats=dict(CHECKS), validate_formats=True
            )
        return self._checkers[key]


def _pattern(path: str) -> re.Pattern[str]:
    """Compile a path with its parameters. WSGI has decoded a slash in the name of a host."""
    escaped = re.escape(path).replace(r"\{host\}", ".+")
    return re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", escaped), re.DOTALL)


@cache
def read_document(version: Version, service: str = "placement") -> Document:
    return Document(version, service)


class CheckedApplication:
    """A WSGI application that checks the answers of the documented APIs."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self.services = application.services

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        service = path.split("/")[1] if "/" in path else ""
        if service not in DESCRIPTIONS:
            return self._application(environ, start_response)
        told: list[Any] = []

        def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> None:
            told[:] = [status, headers, *rest]

        method, below = environ["REQUEST_METHOD"], path.removeprefix(f"/{service}") or "/"
        body = b"".join(self._application(environ, start))
        headers = {name.lower(): value for name, value in told[1]}
        check_exchange(Exchange(method, below, told[0][:3], headers, body))
        start_response(*told)
        return [body]


def check_exchange(answered: Exchange) -> None:
    """Fail where an answer is not what the document of its version tells."""
    spoken = answered.headers.get("openstack-api-version")
    if spoken is None:
        assert answered.status in NO_VERSION, f"no version told: {answered}"
        return
    service, _, number = spoken.partition(" ")
    assert service in DESCRIPTIONS
    major, _, minor = number.partition(".")
    read_document(Version(int(major), int(minor)), service).check(answered)
