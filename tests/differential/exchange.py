# SPDX-License-Identifier: Apache-2.0
"""Requests and replies as values."""

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import unescape
from typing import Any

import microversion_parse


@dataclass(frozen=True)
class Request:
    """A request with a JSON ``document``, with a body ``text``, or without a body.

    A document may contain placeholders (see :mod:`.state`). ``headers`` with the value None are
    not sent.
    """

    method: str
    target: str
    version: str | None = None
    document: Any = ...
    text: str | None = None
    headers: Mapping[str, str | None] = field(default_factory=dict)

    def as_wsgi_request(self) -> dict[str, Any]:
        body = self.text
        if self.document is not ...:
            body = json.dumps(self.document)
        headers: dict[str, str | None] = {"X-Auth-Token": "admin", "X-Roles": "admin,service"}
        if self.version is not None:
            headers["OpenStack-API-Version"] = f"placement {self.version}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        headers |= self.headers
        return {
            "method": self.method,
            "target": self.target,
            "headers": [[name, value] for name, value in headers.items() if value is not None],
            "body": None if body is None else base64.b64encode(body.encode()).decode(),
        }

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]

    @property
    def minor_version(self) -> int:
        version = self.version or self._find_version_in_headers() or "1.0"
        if version == "latest":
            return 39
        _, _, minor = version.partition(".")
        return int(minor) if minor.isdecimal() else -1

    def _find_version_in_headers(self) -> str | None:
        named = {name.lower(): value for name, value in self.headers.items()}
        return microversion_parse.get_version(
            {"openstack-api-version": named.get("openstack-api-version") or ""},
            service_type="placement",
        )

    def as_json(self) -> dict[str, Any]:
        kept: dict[str, Any] = {"request": f"{self.method} {self.target}"}
        if self.version is not None:
            kept["version"] = self.version
        if self.document is not ...:
            kept["json"] = self.document
        if self.text is not None:
            kept["text"] = self.text
        if self.headers:
            kept["headers"] = dict(self.headers)
        return kept


def build_request_from_json(kept: Mapping[str, Any]) -> Request:
    method, target = kept["request"].split(" ", 1)
    return Request(
        method=method,
        target=target,
        version=kept.get("version"),
        document=kept.get("json", ...),
        text=kept.get("text"),
        headers=kept.get("headers", {}),
    )


@dataclass(frozen=True)
class Reply:
    """The response of a side, with header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        if not self.body:
            return None
        try:
            return json.loads(self.body)
        except ValueError:
            return self.body.decode(errors="replace")

    @property
    def error(self) -> Mapping[str, Any]:
        document = self.document
        if isinstance(document, dict) and isinstance(document.get("errors"), list):
            return document["errors"][0]
        return {}

    @property
    def is_error_page(self) -> bool:
        kind = self.headers.get("content-type", "")
        return self.status >= 400 and kind.startswith(("text/html", "text/plain"))

    @property
    def detail(self) -> str:
        if self.is_error_page:
            return _extract_last_paragraph(self.body.decode())
        return str(self.error.get("detail", ""))


def _extract_last_paragraph(page: str) -> str:
    text = re.sub("<br />|</h1>", "\n\n", page.partition("<h1>")[2] or page)
    paragraphs = [text.strip() for text in re.sub("<[^>]*>", "", text).split("\n\n")]
    return unescape(next(filter(None, reversed(paragraphs)), ""))


def build_reply_from_json(document: Mapping[str, Any]) -> Reply:
    headers: dict[str, str] = {}
    for name, value in document["headers"]:
        key = name.lower()
        headers[key] = f"{headers[key]}, {value}" if key in headers else value
    return Reply(document["status"], headers, base64.b64decode(document["body"]))
