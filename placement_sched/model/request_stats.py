# SPDX-License-Identifier: Apache-2.0
"""Statistics of a request: statements, claims and stages."""

from collections import Counter
from contextvars import ContextVar
from dataclasses import dataclass, field

from placement_sched.model.decision import RequestResult


@dataclass(slots=True, eq=False)
class RequestStats:
    """Statistics of a request.

    ``statements`` counts SQL statements, and ``retries`` the transactions that were restarted
    because of a concurrent writer. ``claims_won`` counts claims that allocated, and ``claims_lost``
    claims that failed because of a faster claim or missing capacity. ``claims_retried`` counts
    repeated claims. ``conflicts`` counts conflicting writes by kind, such as missing capacity.
    ``pool_timeouts`` counts how often no database connection was free.

    ``candidates`` is the number of allocation candidates, or None without a search. ``stages`` has
    the seconds of each stage of scheduling, also if the request failed. The handler of the request
    sets ``result``. ``other_results`` are the results of other requests in the same call.
    """

    statements: int = 0
    retries: int = 0
    claims_won: int = 0
    claims_lost: int = 0
    claims_retried: int = 0
    pool_timeouts: int = 0
    conflicts: Counter[str] = field(default_factory=Counter)
    candidates: int | None = None
    stages: dict[str, float] = field(default_factory=dict)
    result: RequestResult | None = None
    other_results: tuple[RequestResult, ...] = ()


_CURRENT: ContextVar[RequestStats] = ContextVar("request_stats")


def get_request_stats() -> RequestStats:
    """Return the statistics of the current request, or start statistics."""
    stats = _CURRENT.get(None)
    return begin_stats() if stats is None else stats


def begin_stats() -> RequestStats:
    """Start statistics for a new request in this context, and return them."""
    stats = RequestStats()
    _CURRENT.set(stats)
    return stats
