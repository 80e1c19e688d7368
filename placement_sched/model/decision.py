"""A decision: what was asked, what came of it, and for whom."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

import orjson

from placement_sched.model.request_ids import NO_REQUEST, RequestIds

SELECTED = "selected"
NO_VALID_HOST = "no_valid_host"

#: The kinds: a selection that is claimed, one that is not, an explanation, and a run beside nova.
SELECT = "select"
NO_CLAIM = "no_claim"
EXPLAIN = "explain"
SHADOW = "shadow"
KINDS = (SELECT, NO_CLAIM, EXPLAIN, SHADOW)


@dataclass(frozen=True, slots=True)
class Place:
    """An instance that was asked for, and the host it was given; None where it was given none."""

    instance: str
    host: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One recorded answer of ``select_destinations``.

    ``digest`` is :func:`digest_of` of the request, by which a repeated one is known; ``places``
    are in the order of the answer's selections. ``request_ids`` are those of the request that was
    answered first, where it was sent more than once. ``kind`` says whether what it chose was
    claimed; ``flavor`` is the name of the flavor, where it has one.
    """

    uuid: str
    outcome: str
    project_id: str | None
    digest: str
    request: Mapping[str, Any]
    answer: Mapping[str, Any]
    places: tuple[Place, ...] = ()
    funnel: Mapping[str, Any] | None = None
    created_at: datetime | None = None
    request_ids: RequestIds = NO_REQUEST
    kind: str = SELECT
    policy: str | None = None
    flavor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionsWanted:
    """Which decisions to list; None is any.

    ``instance`` and ``host`` are those of one of its places, ``since`` is naive UTC.
    """

    outcome: str | None = None
    kind: str | None = None
    project_id: str | None = None
    policy: str | None = None
    flavor: str | None = None
    instance: str | None = None
    host: str | None = None
    request_id: str | None = None
    global_request_id: str | None = None
    since: datetime | None = None


def digest_of(request: Mapping[str, Any]) -> str:
    """Return what two requests share only if they ask the same, whatever the order of keys."""
    return sha256(orjson.dumps(request, option=orjson.OPT_SORT_KEYS)).hexdigest()
