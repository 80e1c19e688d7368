# SPDX-License-Identifier: Apache-2.0
"""Statistics of a request, and the log of slow requests."""

import logging
from collections import Counter
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

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


def log_slow(
    logger: logging.Logger, name: str, status: str, fields: dict[str, Any], **attributes: Any
) -> None:
    """Log a warning with the current request's duration and statistics.

    With ``[DEFAULT] use_json``, the record has the statistics: the number of SQL ``statements`` and
    of ``candidates``, the milliseconds of each scheduling stage, the ``decision`` with its
    ``outcome``, and a summary of the ``funnel``. ``fields``, among them ``duration_ms``, are added
    and take precedence. ``attributes`` are further attributes of the log record.
    """
    statistics = _build_fields(get_request_stats())
    logger.warning(
        "slow: %s took %.1f s (%s); %s",
        name,
        fields["duration_ms"] / 1000,
        status,
        _describe(statistics),
        extra={"extra": statistics | fields, **attributes},
    )


def _build_fields(stats: RequestStats) -> dict[str, Any]:
    result = stats.result
    decision = result and result.decision
    return {
        "statements": stats.statements,
        "candidates": stats.candidates,
        "stages_ms": {name: round(seconds * 1000, 1) for name, seconds in stats.stages.items()},
        "decision": decision and decision.uuid,
        "outcome": decision and decision.outcome,
        "funnel": summarize_funnel(result.funnel) if result and result.funnel else None,
    }


def _describe(statistics: Mapping[str, Any]) -> str:
    parts = [f"{statistics['statements']} SQL statements"]
    if statistics["candidates"] is not None:
        parts.append(f"{statistics['candidates']} candidates")
    if statistics["stages_ms"]:
        longest = sorted(statistics["stages_ms"].items(), key=lambda item: -item[1])
        parts.append(", ".join(f"{name} {took:.0f} ms" for name, took in longest))
    if statistics["funnel"]:
        parts.append(f"hosts {statistics['funnel']}")
    if statistics["decision"]:
        parts.append(f"{statistics['outcome']}, decision {statistics['decision']}")
    return "; ".join(parts)


def summarize_funnel(funnel: Mapping[str, Any]) -> str:
    """Format a funnel's numbers of hosts, such as ``300 > RamFilter 12``."""
    candidates = funnel.get("allocation_candidates") or {}
    steps = [(each["constraint"], each) for each in candidates.get("steps", ())]
    steps += [(each["name"], each) for each in funnel.get("filters", ())]
    if not steps:
        return ""
    removing = [f"{name} {each['after']}" for name, each in steps if each["after"] < each["before"]]
    return " > ".join([str(steps[0][1]["before"]), *removing])
