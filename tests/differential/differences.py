# SPDX-License-Identifier: Apache-2.0
"""Differences between two replies to a request that matter to clients."""

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.differential.exchange import Reply, Request

#: Differing values by aspect: ours, then the peer's.
Differences = dict[str, tuple[Any, Any]]

_COMPARED_HEADERS = (
    "allow", "cache-control", "content-type", "location", "openstack-api-version", "retry-after",
    "vary", "www-authenticate",
)  # fmt: skip
_HEADERS_COMPARED_BY_PRESENCE = ("last-modified", "x-openstack-request-id")

_UUID_PATTERN = re.compile(r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")
_NAME_PATTERN = re.compile(r"\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b|\bVCPU\b")


def find_differences(request: Request, ours: Reply, theirs: Reply) -> Differences:
    ours_seen, theirs_seen = _list_aspects_of_reply(ours), _list_aspects_of_reply(theirs)
    if request.method == "HEAD":  # the length may be that of GET
        del ours_seen["has content length"], theirs_seen["has content length"]
    differences = {
        aspect: (ours_seen.get(aspect), theirs_seen.get(aspect))
        for aspect in sorted(ours_seen.keys() | theirs_seen.keys())
        if ours_seen.get(aspect) != theirs_seen.get(aspect)
    }
    unnamed = _find_sent_names_in_detail(request, theirs) - _find_names_and_uuids(ours.detail)
    if unnamed and ours.status == theirs.status:
        differences["names in detail"] = (ours.detail, sorted(unnamed))
    return differences


def _list_aspects_of_reply(reply: Reply) -> dict[str, Any]:
    aspects: dict[str, Any] = {"status": reply.status}
    for name in _COMPARED_HEADERS:
        if name in reply.headers:
            aspects[f"header {name}"] = _normalize_header(name, reply.headers[name])
    for name in _HEADERS_COMPARED_BY_PRESENCE:
        aspects[f"header {name}"] = name in reply.headers
    aspects["has content length"] = reply.headers.get("content-length", "0") == str(len(reply.body))
    document = reply.document
    if reply.error:
        rest = {key: value for key, value in reply.error.items() if key not in _IGNORED_ERROR_KEYS}
        aspects |= {f"error {key}": value for key, value in rest.items()}
    elif not reply.is_error_page:  # the text of an HTML error is not compared
        aspects["body"] = sort_keys_and_lists(document)
    return aspects


_IGNORED_ERROR_KEYS = {"detail", "request_id"}


def _normalize_header(name: str, value: str) -> Any:
    if name == "allow":
        return sorted(method.strip() for method in value.split(",") if method.strip())
    if name == "location":
        return urlsplit(value).path
    return value


def sort_keys_and_lists(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: sort_keys_and_lists(item) for key, item in sorted(value.items())}
    if isinstance(value, list):
        return sorted((sort_keys_and_lists(item) for item in value), key=json.dumps)
    return value


def _find_sent_names_in_detail(request: Request, reply: Reply) -> set[str]:
    # After these words the peer prints the whole schema and the whole document.
    sentence = reply.detail.partition("Failed validating")[0]
    sent = f"{unquote(request.target)} {json.dumps(request.as_json())}"
    return {word for word in _find_names_and_uuids(sentence) if word in sent}


def _find_names_and_uuids(text: str) -> set[str]:
    return set(_UUID_PATTERN.findall(text)) | set(_NAME_PATTERN.findall(text))


def round_numbers_to_six_digits(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: round_numbers_to_six_digits(item) for key, item in value.items()}
    return (
        [round_numbers_to_six_digits(item) for item in value] if isinstance(value, list) else value
    )
