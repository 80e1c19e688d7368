# SPDX-License-Identifier: Apache-2.0
"""What tells two replies to one request apart, as far as a client could."""

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.differential.exchange import Reply, Request

#: What differs, by aspect: ours, then the peer's.
Differences = dict[str, tuple[Any, Any]]

_HEADERS = (
    "allow",
    "cache-control",
    "content-type",
    "location",
    "openstack-api-version",
    "retry-after",
    "vary",
    "www-authenticate",
)
_STAMPS = ("last-modified", "x-openstack-request-id")

_UUID = re.compile(r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")
_NAME = re.compile(r"\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b|\bVCPU\b")


def differences(request: Request, ours: Reply, theirs: Reply) -> Differences:
    ours_seen, theirs_seen = _aspects_of_reply(ours), _aspects_of_reply(theirs)
    if request.method == "HEAD":  # may tell the length that GET would have
        del ours_seen["length told"], theirs_seen["length told"]
    found = {
        aspect: (ours_seen.get(aspect), theirs_seen.get(aspect))
        for aspect in sorted(ours_seen.keys() | theirs_seen.keys())
        if ours_seen.get(aspect) != theirs_seen.get(aspect)
    }
    unnamed = _names_in_detail(request, theirs) - _words_of_detail(ours)
    if unnamed and ours.status == theirs.status:
        found["names in detail"] = (ours.detail, sorted(unnamed))
    return found


def _aspects_of_reply(reply: Reply) -> dict[str, Any]:
    aspects: dict[str, Any] = {"status": reply.status}
    for name in _HEADERS:
        if name in reply.headers:
            aspects[f"header {name}"] = _normalize_header(name, reply.headers[name])
    for name in _STAMPS:
        aspects[f"header {name}"] = name in reply.headers
    aspects["length told"] = reply.headers.get("content-length", "0") == str(len(reply.body))
    document = reply.document
    if reply.error:
        rest = {key: value for key, value in reply.error.items() if key not in _TOLD_APART}
        aspects |= {f"error {key}": value for key, value in rest.items()}
    elif not reply.is_page:  # of a page the type and the names count, as of a detail
        aspects["body"] = normalize(document)
    return aspects


_TOLD_APART = {"detail", "request_id"}


def _normalize_header(name: str, value: str) -> Any:
    if name == "allow":
        return sorted(method.strip() for method in value.split(",") if method.strip())
    if name == "location":
        return urlsplit(value).path
    return value


def normalize(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: normalize(one) for key, one in sorted(value.items())}
    if isinstance(value, list):
        return sorted((normalize(one) for one in value), key=json.dumps)
    return value


def _names_in_detail(request: Request, reply: Reply) -> set[str]:
    # Behind it the peer prints the whole schema and the whole document.
    sentence = reply.detail.partition("Failed validating")[0]
    asked = f"{unquote(request.target)} {json.dumps(request.as_json())}"
    return {word for word in _names_and_uuids_in(sentence) if word in asked}


def _words_of_detail(reply: Reply) -> set[str]:
    return _names_and_uuids_in(reply.detail)


def _names_and_uuids_in(text: str) -> set[str]:
    return set(_UUID.findall(text)) | set(_NAME.findall(text))


def with_short_ratios(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: with_short_ratios(one) for key, one in value.items()}
    return [with_short_ratios(one) for one in value] if isinstance(value, list) else value
