# SPDX-License-Identifier: Apache-2.0
"""UUIDs in capitals, in braces, as URNs or without hyphens."""

import json
import re
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode

from tests.differential.exchange import Request

_UUID_PATTERN = re.compile(
    r"(?i)(?:urn:uuid:|urn:|uuid:)?\{?"
    r"\b([0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12})\b\}?"
)


def has_odd_uuid_spelling(request: Request) -> bool:
    text = unquote(request.target) + json.dumps(request.as_json())
    return any(_format_canonical_uuid(match) != match[0] for match in _UUID_PATTERN.finditer(text))


def canonicalize_uuids_of_request(request: Request) -> Request:
    path, mark, query = request.target.partition("?")
    pairs = parse_qsl(canonicalize_uuids(unquote(query)), keep_blank_values=True)
    plain = replace(request, target=canonicalize_uuids(path) + mark + urlencode(pairs))
    if request.document is not ...:
        plain = replace(plain, document=_canonicalize_uuids_of_value(request.document))
    if request.text is not None:
        plain = replace(plain, text=canonicalize_uuids(request.text))
    return plain


def _format_canonical_uuid(match: re.Match[str]) -> str:
    digits = match[1].replace("-", "").lower()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _canonicalize_uuids_of_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            canonicalize_uuids(key): _canonicalize_uuids_of_value(item)
            for key, item in value.items()
        }
    if not isinstance(value, list):
        return canonicalize_uuids(value) if isinstance(value, str) else value
    items = [_canonicalize_uuids_of_value(item) for item in value]
    # Equal items stay. Items that differ only in spelling become a single item.
    unique = [item for item in value if value.count(item) == 1]
    return [
        item
        for index, item in enumerate(items)
        if value[index] not in unique or item not in items[:index]
    ]


def canonicalize_uuids(text: str) -> str:
    return _UUID_PATTERN.sub(_format_canonical_uuid, text)
