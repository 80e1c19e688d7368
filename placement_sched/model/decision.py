"""A decision: what was asked, what came of it, and for whom."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

import orjson

SELECTED = "selected"
NO_VALID_HOST = "no_valid_host"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One recorded answer of ``select_destinations``.

    ``digest`` is :func:`digest_of` of the request, by which a repeated one is known.
    """

    uuid: str
    outcome: str
    project_id: str | None
    digest: str
    request: Mapping[str, Any]
    answer: Mapping[str, Any]
    funnel: Mapping[str, Any] | None = None
    created_at: datetime | None = None


def digest_of(request: Mapping[str, Any]) -> str:
    """Return what two requests share only if they ask the same, whatever the order of keys."""
    return sha256(orjson.dumps(request, option=orjson.OPT_SORT_KEYS)).hexdigest()
