# SPDX-License-Identifier: Apache-2.0
"""The log line of a slow request, over HTTP or from nova."""

import logging
from collections.abc import Mapping
from typing import Any

from placement_sched.model.request_stats import RequestStats, request_stats


def log_slow(
    logger: logging.Logger, name: str, status: str, fields: dict[str, Any], **attributes: Any
) -> None:
    """Log a warning about the current request, with its duration and its statistics.

    ``fields`` are fields for ``[DEFAULT] use_json``, among them ``duration_ms``. They are added to
    the number of SQL ``statements`` and of ``candidates``, the milliseconds of each scheduling
    stage, the ``decision`` with its ``outcome``, and a summary of the ``funnel``, and replace
    fields of the same name. ``attributes`` are further attributes of the log record.
    """
    spent = _build_fields(request_stats())
    logger.warning(
        "slow: %s took %.1f s (%s); %s",
        name,
        fields["duration_ms"] / 1000,
        status,
        _describe(spent),
        extra={"extra": spent | fields, **attributes},
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
        "funnel": funnel_summary(result.funnel) if result and result.funnel else None,
    }


def _describe(spent: Mapping[str, Any]) -> str:
    parts = [f"{spent['statements']} SQL statements"]
    if spent["candidates"] is not None:
        parts.append(f"{spent['candidates']} candidates")
    if spent["stages_ms"]:
        longest = sorted(spent["stages_ms"].items(), key=lambda item: -item[1])
        parts.append(", ".join(f"{name} {took:.0f} ms" for name, took in longest))
    if spent["funnel"]:
        parts.append(f"hosts {spent['funnel']}")
    if spent["decision"]:
        parts.append(f"{spent['outcome']}, decision {spent['decision']}")
    return "; ".join(parts)


def funnel_summary(funnel: Mapping[str, Any]) -> str:
    """Describe a funnel by its number of hosts at the start and after each rejection."""
    candidates = funnel.get("allocation_candidates") or {}
    steps = [(each["constraint"], each) for each in candidates.get("steps", ())]
    steps += [(each["name"], each) for each in funnel.get("filters", ())]
    if not steps:
        return ""
    removing = [f"{name} {each['after']}" for name, each in steps if each["after"] < each["before"]]
    return " > ".join([str(steps[0][1]["before"]), *removing])
