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
    """One request. ``document`` is JSON with marks in it (see :mod:`.state`), ``text`` the body
    as it is; with neither there is no body. ``headers`` whose value is None are left out.
    """

    method: str
    target: str
    version: str | None = None
    document: Any = ...
    text: str | None = None
    headers: Mapping[str, str | None] = field(default_factory=dict)

    def wire(self) -> dict[str, Any]:
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
    def minor(self) -> int:
        asked = self.version or self._spoiled_version() or "1.0"
        if asked == "latest":
            return 39
        _, _, minor = asked.partition(".")
        return int(minor) if minor.isdecimal() else -1

    def _spoiled_version(self) -> str | None:
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


def request_from_json(kept: Mapping[str, Any]) -> Request:
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
    """What a side answered; header names are in lower case."""

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
    def is_page(self) -> bool:
        kind = self.headers.get("content-type", "")
        return self.status >= 400 and kind.startswith(("text/html", "text/plain"))

    @property
    def detail(self) -> str:
        if self.is_page:
            return _last_paragraph(self.body.decode())
        return str(self.error.get("detail", ""))


def _last_paragraph(page: str) -> str:
    text = re.sub("<br />|</h1>", "\n\n", page.partition("<h1>")[2] or page)
    paragraphs = [one.strip() for one in re.sub("<[^>]*>", "", text).split("\n\n")]
    return unescape(next((one for one in reversed(paragraphs) if one), ""))


def reply_from_json(told: Mapping[str, Any]) -> Reply:
    headers: dict[str, str] = {}
    for name, value in told["headers"]:
        key = name.lower()
        headers[key] = f"{headers[key]}, {value}" if key in headers else value
    return Reply(told["status"], headers, base64.b64decode(told["body"]))
