# SPDX-License-Identifier: Apache-2.0
"""Readers of explanations in JSON, for the command line and the console."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from placement_sched.explain.kinds import format_option
from placement_sched.explain.nested_values import with_names
from placement_sched.explain.phrases import build_group_key, describe_stage, merge_reasons
from placement_sched.model.document import Json


@dataclass(frozen=True, slots=True)
class GroupedReason:
    """A reason, its number of rejections, and a rejected host as an example."""

    count: int
    text: str
    example: str
    node: str


def group_reasons(rejected: Iterable[Json]) -> list[GroupedReason]:
    """Group the reasons of rejected hosts, most frequent first.

    Reasons that differ only in amounts are merged, showing the range of each amount: ``4096 free``
    and ``8192 free`` become ``4096..8192 free``. Reasons without values, as old decisions have
    them, are merged only if their texts are equal.
    """
    by_words: dict[tuple[str, str], list[Json]] = defaultdict(list)
    for entry in rejected:
        by_words[build_group_key(entry)].append(entry)
    reasons = []
    for entries in by_words.values():
        text = merge_reasons(entries)
        example = format_node(entries[0]["host"], entries[0]["node"])
        reasons.append(GroupedReason(len(entries), text, example, entries[0]["node"]))
    return sorted(reasons, key=lambda reason: (-reason.count, reason.text))


def format_node(host: str, node: str) -> str:
    """Return the label of a node: its host, and its name if they differ."""
    return host if host == node else f"{host} ({node})"


def iterate_stages(funnel: Json) -> Iterator[tuple[str, Json]]:
    """Yield the name and the report of each stage, in order.

    The steps of the second search, which requests pinned CPUs as VCPU, follow the steps of the
    first search.
    """
    candidates = funnel["allocation_candidates"]
    for step in candidates["steps"]:
        yield _format_step_label(step), step
    for step in candidates.get("fallback", {}).get("steps", ()):
        yield f"with VCPU for PCPU: {_format_step_label(step)}", step
    for report in funnel["filters"]:
        yield report["name"], report


def format_missing_names(report: Json) -> str:
    """Return a warning about the missing names that a plugin has read, or ""."""
    names = report.get("missing_names", ())
    return f"may differ from nova: it reads {', '.join(names)}, missing here" if names else ""


def _format_step_label(step: Json) -> str:
    text = f"{step['constraint']} {step['detail']}".strip()
    return f"{text} by {format_option(step)}" if step.get("option") else text


def describe_limit_reason(entry: Json) -> str:
    """Return an operator's words for an entry of ``limited_by``."""
    names = entry.get("names")
    return describe_stage(entry, names) or with_names(format_limit_reason(entry), names)


def format_limit_reason(entry: Json) -> str:
    """Return the reason and the detail of an entry of ``limited_by``."""
    return f"{entry['reason']} {entry.get('detail') or ''}".strip()


def compare_stages(explanations: Sequence[Json]) -> list[tuple[str, list[Json | None]]]:
    """List the name of each stage, with its report in each explanation.

    The report is None if an explanation lacks the stage. A stage that only a later explanation has
    follows the stage that precedes it there.
    """
    runs = [dict(iterate_stages(run["funnel"])) for run in explanations]
    names: list[str] = []
    for run in runs:
        place = 0
        for name in run:
            if name in names:
                place = names.index(name) + 1
            else:
                names.insert(place, name)
                place += 1
    return [(name, [run.get(name) for run in runs]) for name in names]


def list_stage_reasons(explanation: Json, verdict: Json) -> list[tuple[str, str, list[Json]]]:
    """List the family, name and reasons for rejection of each stage.

    ``verdict`` is an entry of the explanation's ``verdicts``. If the name of a reason is empty,
    only the first reason was determined, and the stages after it are "not evaluated".
    """
    reasons = verdict["reasons"]
    all_evaluated = all(reason["name"] for reason in reasons)
    is_rejected = False
    path = []
    for stage in explanation["stages"]:
        key = stage["stage"], stage["name"]
        rejecting = [reason for reason in reasons if (reason["stage"], reason["name"]) == key]
        is_rejected = is_rejected or bool(rejecting)
        if is_rejected and not rejecting and not all_evaluated:
            rejecting = [{"stage": key[0], "name": key[1], "reason": "not evaluated"}]
        path.append((*key, rejecting))
    return path


def describe_obstacle(explanation: Json) -> str:
    """Return the sentence about the stage that left no host.

    The funnel of a decision that is an outline lacks it, and the decision has it as ``reason``.
    """
    report = explanation["funnel"].get("obstacle", explanation)
    return report.get("reason") or "the server did not report the stage"


def count_passed(explanation: Json) -> int:
    """Return the number of passing hosts, also if not all are listed."""
    counts = [stage["after"] for _, stage in iterate_stages(explanation["funnel"])]
    return counts[-1] if counts else len(explanation["hosts"])


#: Bounds between which a number is written without an exponent.
_MIN_PLAIN, _MAX_PLAIN = 1e5, 1e15


def format_value(value: Any) -> str:
    """Format a value of an option, or of a difference between two runs."""
    match value:
        case None:
            return "-"
        case {"before": before, "after": after}:
            return f"{before} -> {after}"
        case {"allocations": allocations}:
            return "; ".join(
                f"{uuid}: {_format_amounts(part['resources'])}"
                for uuid, part in allocations.items()
            )
        case {"applied": bool(applied), **rest}:
            state = "applied" if applied else "not applied"
            return "\n".join([state, *(format_value(part) for part in rest.values() if part)])
        case dict():
            return "\n".join(f"{key} {format_value(part)}" for key, part in value.items())
        case list():
            return ", ".join(map(format_value, value)) or "-"
        case float():
            return f"{value:.0f}" if _MIN_PLAIN < abs(value) < _MAX_PLAIN else f"{value:.6g}"
    return str(value)


def _format_amounts(resources: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={amount}" for name, amount in sorted(resources.items()))


#: Keys that the stages of an outline lack. An outline is recorded for a funnel that is too large.
_OMITTED_KEYS: Json = {"detail": "", "rejected": [], "changes": {}}


def with_all_keys(funnel: Json) -> Json:
    """Add keys that the stages of a funnel lack if it is an outline."""
    if not funnel.get("outline"):
        return funnel
    candidates = funnel["allocation_candidates"]
    steps = [{**_OMITTED_KEYS, **step} for step in candidates["steps"]]
    return {
        **funnel,
        "request_filters": [{**_OMITTED_KEYS, **report} for report in funnel["request_filters"]],
        "allocation_candidates": {**candidates, "steps": steps},
        "filters": [{**_OMITTED_KEYS, **report} for report in funnel["filters"]],
    }
