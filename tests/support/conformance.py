# SPDX-License-Identifier: Apache-2.0
"""Holds every answer of the Placement API to the OpenAPI document of its microversion."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import jsonschema_rs
import orjson

from placement_sched.api import openapi
from placement_sched.api.application import Application
from placement_sched.api.placement.microversions import VERSIONING
from placement_sched.api.placement.openapi import describe
from placement_sched.api.placement.routes import API
from placement_sched.api.validation import FORMATS
from placement_sched.api.versions import Version

PREFIX = "/placement"
#: What is answered where no operation is: no token, no such path, no such method.
NO_OPERATION = {"401", "404", "405"}
#: What is answered before a microversion is agreed on.
NO_VERSION = {"400", "401", "406"}
#: Headers that tell of the body, of which the document tells elsewhere.
OF_BODY = {"content-type", "content-length"}


@dataclass(frozen=True)
class Answered:
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

    def __init__(self, version: Version) -> None:
        self.tree = openapi.document(describe(API.routes), version, PREFIX)
        self._operations = [
            (_pattern(path), method.upper(), operation)
            for path, methods in self.tree["paths"].items()
            for method, operation in methods.items()
        ]
        self._checkers: dict[tuple[str, str], jsonschema_rs.Validator] = {}

    def operation(self, method: str, path: str) -> Mapping[str, Any] | None:
        """The operation that serves ``path`` (below the prefix), or None."""
        for pattern, served, operation in self._operations:
            if served == method and pattern.fullmatch(path):
                return operation
        return None

    def check(self, answered: Answered) -> None:
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

    def _check_headers(self, answered: Answered, documented: Iterable[str]) -> None:
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
                whole, formats=FORMATS, validate_formats=True
            )
        return self._checkers[key]


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path)), re.DOTALL)


@cache
def document_of(version: Version) -> Document:
    return Document(version)


class Conforming:
    """An application, every Placement answer of which is checked on its way out (WSGI)."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self.services = application.services

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path != PREFIX and not path.startswith(f"{PREFIX}/"):
            return self._application(environ, start_response)
        told: list[Any] = []

        def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> None:
            told[:] = [status, headers, *rest]

        method, below = environ["REQUEST_METHOD"], path.removeprefix(PREFIX) or "/"
        body = b"".join(self._application(environ, start))
        headers = {name.lower(): value for name, value in told[1]}
        check(Answered(method, below, told[0][:3], headers, body))
        start_response(*told)
        return [body]


def check(answered: Answered) -> None:
    """Fail where an answer is not what the document of its version tells."""
    spoken = answered.headers.get("openstack-api-version")
    if spoken is None:
        assert answered.status in NO_VERSION, f"no version told: {answered}"
        return
    service, _, number = spoken.partition(" ")
    assert service == VERSIONING.service
    major, _, minor = number.partition(".")
    document_of(Version(int(major), int(minor))).check(answered)
