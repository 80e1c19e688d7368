# SPDX-License-Identifier: Apache-2.0
"""UUIDs in capitals, in braces, as URNs or without hyphens."""

import json
import re
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode

from tests.differential.exchange import Request

_HEX = re.compile(
    r"(?i)(?:urn:uuid:|urn:|uuid:)?\{?"
    r"\b([0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12})\b\}?"
)


def has_odd_uuid_spelling(request: Request) -> bool:
    text = unquote(request.target) + json.dumps(request.as_json())
    return any(_canonical_uuid(match) != match[0] for match in _HEX.finditer(text))


def with_canonical_uuids(request: Request) -> Request:
    path, mark, query = request.target.partition("?")
    pairs = parse_qsl(canonical_uuids_in(unquote(query)), keep_blank_values=True)
    plain = replace(request, target=canonical_uuids_in(path) + mark + urlencode(pairs))
    if request.document is not ...:
        plain = replace(plain, document=_canonical_value(request.document))
    if request.text is not None:
        plain = replace(plain, text=canonical_uuids_in(request.text))
    return plain


def _canonical_uuid(match: re.Match[str]) -> str:
    digits = match[1].replace("-", "").lower()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _canonical_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {canonical_uuids_in(key): _canonical_value(item) for key, item in value.items()}
    if not isinstance(value, list):
        return canonical_uuids_in(value) if isinstance(value, str) else value
    items = [_canonical_value(item) for item in value]
    # Equal items stay. Items that differ only in spelling become a single item.
    unique = [item for item in value if value.count(item) == 1]
    return [
        item
        for index, item in enumerate(items)
        if value[index] not in unique or item not in items[:index]
    ]


def canonical_uuids_in(text: str) -> str:
    return _HEX.sub(_canonical_uuid, text)
