# SPDX-License-Identifier: Apache-2.0
"""A client of an API that is made from the API's OpenAPI document alone.

Each operation is a method with the name of its ``operationId``, with ``_`` in place of the dot. Its
arguments are the body and, by name, the parameters of the path and the query. The body and the
response are compared with the schemas of the document.
"""

from collections.abc import Mapping
from copy import copy
from functools import partial
from typing import Any, Self
from urllib.parse import quote, urlencode

import jsonschema_rs
from webtest import TestApp

JSON_CONTENT_TYPE = "application/json"


class OpenApiClient:
    """The operations of a document. ``calls`` has the names of the called operations."""

    def __init__(self, app: TestApp, address: str, *, token: str) -> None:
        self._app, self._token, self._expected = app, token, None
        self._document = app.get(address).json
        self._operations = {
            operation["operationId"].replace(".", "_"): (method, path, operation)
            for path, methods in self._document["paths"].items()
            for method, operation in methods.items()
        }
        self.calls: set[str] = set()

    @property
    def names(self) -> set[str]:
        return set(self._operations)

    def expect_status(self, status: int) -> Self:
        """Return a client whose next calls have to be answered with ``status``."""
        other = copy(self)
        other._expected = status
        return other

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._operations:
            raise AttributeError(name)
        return partial(self._send_request, name)

    def _send_request(self, name: str, body: Any = None, /, **arguments: str) -> Any:
        method, path, operation = self._operations[name]
        headers, query = self._build_credentials(operation), {}
        for parameter in operation["parameters"]:
            if parameter["in"] == "header":
                headers[parameter["name"]] = parameter["schema"]["const"]
            elif (value := arguments.pop(parameter["name"], None)) is not None:
                self._check_value(parameter["schema"], value)
                if parameter["in"] == "path":
                    path = path.replace(f"{{{parameter['name']}}}", quote(value, safe=""))
                else:
                    query[parameter["name"]] = value
        assert not arguments, f"{name} has no parameter {', '.join(arguments)}"
        options = {}
        if "requestBody" in operation:
            self._check_value(
                operation["requestBody"]["content"][JSON_CONTENT_TYPE]["schema"], body
            )
            options["params"] = body
        (server,) = self._document["servers"]
        address = f"{server['url']}{path}" + (f"?{urlencode(query)}" if query else "")
        send = getattr(self._app, f"{method}_json" if options else method)
        reply = send(address, headers=headers, expect_errors=True, **options)
        assert reply.status_int == (self._expected or reply.status_int), reply.text
        assert self._expected or reply.status_int < 400, reply.text
        self.calls.add(name)
        response = operation["responses"][str(reply.status_int)]
        if "content" not in response:
            assert reply.body == b""
            return None
        self._check_value(response["content"][reply.content_type]["schema"], reply.json)
        return reply.json

    def _build_credentials(self, operation: Mapping[str, Any]) -> dict[str, str]:
        """Return the header of the operation's security scheme."""
        schemes = self._document["components"]["securitySchemes"]
        names = [name for scheme in operation["security"] for name in scheme]
        return {schemes[name]["name"]: self._token for name in names}

    def _check_value(self, schema: Mapping[str, Any], value: Any) -> None:
        jsonschema_rs.validate({**schema, "components": self._document["components"]}, value)
