# SPDX-License-Identifier: Apache-2.0
"""Statistics of a request: statements, claims and stages."""

from collections import Counter
from contextvars import ContextVar
from dataclasses import dataclass, field

from placement_sched.model.decision import RequestResult


@dataclass(slots=True, eq=False)
class RequestStats:
    """Statistics of a request.

    ``retries`` counts transactions restarted because of a concurrent writer. ``claims_lost`` counts
    claims that failed because of a faster claim or missing capacity, ``conflicts`` conflicting
    writes by kind, and ``pool_timeouts`` missing database connections. ``candidates`` is None
    without a search. ``stages`` has the seconds of each stage of scheduling. The handler of the
    request sets ``result``, and ``other_results`` of other requests in the call.
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
