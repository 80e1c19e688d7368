"""What took the time of a slow request, over HTTP or from nova: for its line in the log."""

from collections.abc import Iterator, Mapping
from typing import Any

from placement_sched.model.request_stats import RequestStats


def spent_by(stats: RequestStats) -> dict[str, Any]:
    """Return what a request did, as fields of a log line.

    They are the number of its SQL ``statements`` and of the ``candidates`` that it found, how many
    milliseconds each stage of scheduling took, the ``decision`` with its ``outcome``, and a summary
    of the ``funnel``; None where there was none.
    """
    made = stats.made
    return {
        "statements": stats.statements,
        "candidates": stats.candidates,
        "stages_ms": {name: round(one * 1000, 1) for name, one in stats.stages.items()},
        "decision": made and made.uuid,
        "outcome": made and made.outcome,
        "funnel": funnel_summary(stats.funnel) if stats.funnel else None,
    }


def sentence_of(spent: Mapping[str, Any]) -> str:
    """Return what :func:`spent_by` found in words, as far as there is something to say."""
    return "; ".join(_parts(spent))


def _parts(spent: Mapping[str, Any]) -> Iterator[str]:
    yield f"{spent['statements']} SQL statements"
    if spent["candidates"] is not None:
        yield f"{spent['candidates']} candidates"
    if spent["stages_ms"]:
        longest = sorted(spent["stages_ms"].items(), key=lambda one: -one[1])
        yield ", ".join(f"{name} {took:.0f} ms" for name, took in longest)
    if spent["funnel"]:
        yield f"hosts {spent['funnel']}"
    if spent["decision"]:
        yield f"{spent['outcome']}, decision {spent['decision']}"


def funnel_summary(funnel: Mapping[str, Any]) -> str:
    """Return how many hosts came in, and how many each stage that removed any let through."""
    candidates = funnel.get("allocation_candidates") or {}
    steps = [(one["constraint"], one) for one in candidates.get("steps", ())]
    steps += [(one["name"], one) for one in funnel.get("filters", ())]
    if not steps:
        return ""
    removing = [f"{name} {one['after']}" for name, one in steps if one["after"] < one["before"]]
    return " > ".join([str(steps[0][1]["before"]), *removing])
