# SPDX-License-Identifier: Apache-2.0
"""Uuids in capitals, in braces, as URNs or without hyphens."""

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


def is_odd(request: Request) -> bool:
    text = unquote(request.target) + json.dumps(request.as_json())
    return any(_plain(match) != match[0] for match in _HEX.finditer(text))


def spelled_out(request: Request) -> Request:
    path, mark, query = request.target.partition("?")
    pairs = parse_qsl(uuid_text(unquote(query)), keep_blank_values=True)
    plain = replace(request, target=uuid_text(path) + mark + urlencode(pairs))
    if request.document is not ...:
        plain = replace(plain, document=_plainly(request.document))
    if request.text is not None:
        plain = replace(plain, text=uuid_text(request.text))
    return plain


def _plain(match: re.Match[str]) -> str:
    digits = match[1].replace("-", "").lower()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _plainly(value: Any) -> Any:
    if isinstance(value, dict):
        return {uuid_text(key): _plainly(one) for key, one in value.items()}
    if not isinstance(value, list):
        return uuid_text(value) if isinstance(value, str) else value
    found = [_plainly(one) for one in value]
    apart = [one for one in value if value.count(one) == 1]
    return [
        one
        for place, one in enumerate(found)
        if value[place] not in apart or one not in found[:place]
    ]


def uuid_text(text: str) -> str:
    return _HEX.sub(_plain, text)
