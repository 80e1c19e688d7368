"""Reads an explanation (contract §4): its stages in order, their reasons, what was in the way.

For the command line and the pages, which show the same in their own ways.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from placement_sched.model.document import Json

_NUMBER = re.compile(r"(?<![\w.-])-?\d+(?:\.\d+)?(?![\w-])(?!\.\w)")


@dataclass(frozen=True, slots=True)
class GroupedReason:
    """Why ``count`` hosts were rejected; ``example`` is the first of them, with its ``node``."""

    count: int
    text: str
    example: str
    node: str


def grouped(rejected: Iterable[Mapping[str, Any]]) -> list[GroupedReason]:
    """Return the reasons of a stage's ``rejected`` hosts, most frequent first.

    Reasons that differ in numbers only are one; where the numbers differ their range is shown:
    ``4096 free`` and ``8192 free`` become ``4096..8192 free``.
    """
    alike: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for entry in rejected:
        alike[_NUMBER.sub("#", entry["reason"])].append(entry)
    found = []
    for entries in alike.values():
        text = _spanning([entry["reason"] for entry in entries])
        example = named(entries[0]["host"], entries[0]["node"])
        found.append(GroupedReason(len(entries), text, example, entries[0]["node"]))
    return sorted(found, key=lambda reason: (-reason.count, reason.text))


def named(host: str, node: str) -> str:
    """Return how a node is called: by its host, and by its own name where that is another."""
    return host if host == node else f"{host} ({node})"


def _spanning(reasons: Sequence[str]) -> str:
    """Return one sentence for reasons of the same words: each number, or the range it takes."""
    columns = iter(zip(*(_NUMBER.findall(reason) for reason in reasons), strict=True))

    def span(_match: re.Match[str]) -> str:
        numbers = sorted(set(next(columns)), key=float)
        return numbers[0] if len(numbers) == 1 else f"{numbers[0]}..{numbers[-1]}"

    return _NUMBER.sub(span, reasons[0])


def stages(funnel: Json) -> Iterator[tuple[str, Json]]:
    """Yield the name and the report of each stage that hosts went through, in order.

    Where hosts that offer pinned CPUs as VCPU were looked for as well, those steps come second.
    """
    candidates = funnel["allocation_candidates"]
    for step in candidates["steps"]:
        yield _label(step), step
    for step in candidates.get("fallback", {}).get("steps", ()):
        yield f"with VCPU for PCPU: {_label(step)}", step
    for report in funnel["filters"]:
        yield report["name"], report


def _label(step: Json) -> str:
    """Return the name of a step, and the option that sets it where one does."""
    text = f"{step['constraint']} {step['detail']}".strip()
    return f"{text} by {step['option']}" if step.get("option") else text


def compared_stages(explanations: Sequence[Json]) -> list[tuple[str, list[Json | None]]]:
    """Return every stage once, and its report in each explanation, None where it has no such stage.

    The steps of all searches come first, then the filters of all policies.
    """
    found = [dict(stages(one["funnel"])) for one in explanations]
    filters = [report["name"] for one in explanations for report in one["funnel"]["filters"]]
    steps = [name for one in found for name in one if name not in filters]
    return [(name, [one.get(name) for one in found]) for name in dict.fromkeys([*steps, *filters])]


def path_of(explanation: Json, verdict: Json) -> list[tuple[str, str, list[Json]]]:
    """Return family and name of each stage, and why it rejects a host: no reason if it passes.

    ``verdict`` is one of those that the explanation has. Where a reason without a name says that
    not all were sought, the stages after the first reason were not asked.
    """
    reasons = verdict["reasons"]
    all_sought = all(one["name"] for one in reasons)
    is_rejected = False
    found = []
    for stage in explanation["stages"]:
        key = stage["stage"], stage["name"]
        rejecting = [one for one in reasons if (one["stage"], one["name"]) == key]
        is_rejected = is_rejected or bool(rejecting)
        if is_rejected and not rejecting and not all_sought:
            rejecting = [{"stage": key[0], "name": key[1], "reason": "not evaluated"}]
        found.append((*key, rejecting))
    return found


def obstacle(explanation: Json) -> str:
    """Return in one sentence which stage kept a request from finding a host."""
    found = explanation["funnel"].get("obstacle")
    return found["reason"] if found else "the server did not report the stage"


def passed(explanation: Json) -> int:
    """Return how many hosts passed, of which the explanation may show only some."""
    passed = [stage["after"] for _, stage in stages(explanation["funnel"])]
    return passed[-1] if passed else len(explanation["hosts"])


def with_names(value: Any, names: Mapping[str, str]) -> Any:
    """Return a text or a funnel with names for uuids, but in the query, which stays exact."""
    if not names:
        return value
    if isinstance(value, str):
        for uuid, name in names.items():
            value = value.replace(uuid, name)
        return value
    if isinstance(value, Mapping):
        return {
            key: part if key == "query" else with_names(part, names) for key, part in value.items()
        }
    return [with_names(part, names) for part in value] if isinstance(value, list) else value


#: Between these a number is written without an exponent.
_WHOLE, _HUGE = 1e5, 1e15


def in_words(value: Any) -> str:
    """Return one side of a difference, or the value of an option, as people read it."""
    match value:
        case None:
            return "-"
        case {"before": before, "after": after}:
            return f"{before} -> {after}"
        case {"allocations": allocations}:
            return "; ".join(
                f"{uuid}: {_amounts(part['resources'])}" for uuid, part in allocations.items()
            )
        case {"applied": bool(applied), **rest}:
            done = "applied" if applied else "not applied"
            return "\n".join([done, *(in_words(part) for part in rest.values() if part)])
        case dict():
            return "\n".join(f"{key} {in_words(part)}" for key, part in value.items())
        case list():
            return ", ".join(map(in_words, value)) or "-"
        case float():
            return f"{value:.0f}" if _WHOLE < abs(value) < _HUGE else f"{value:.6g}"
    return str(value)


def _amounts(resources: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={amount}" for name, amount in sorted(resources.items()))


#: What the entries of an outline lack.
_OUTLINED: Json = {"detail": "", "rejected": [], "changes": {}}


def completed(funnel: Json) -> Json:
    """Return a funnel in which each stage has all its keys, also where an outline was kept."""
    if not funnel.get("outline"):
        return funnel
    candidates = funnel["allocation_candidates"]
    steps = [{**_OUTLINED, **one} for one in candidates["steps"]]
    return {
        **funnel,
        "request_filters": [{**_OUTLINED, **one} for one in funnel["request_filters"]],
        "allocation_candidates": {**candidates, "steps": steps},
        "filters": [{**_OUTLINED, **one} for one in funnel["filters"]],
    }
