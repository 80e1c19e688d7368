"""What differs between two runs of one request, both as a decision shows them.

Times are not compared. Steps of the candidates search are, where both runs counted them; what an
outline of a funnel lacks is not.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from placement_sched.model.document import Json
from placement_sched.model.results.stages import CANDIDATES


@dataclass(frozen=True, slots=True)
class RunDifference:
    """One thing that differs; None where there is no such thing, or an option has its default."""

    what: str
    then: Any
    now: Any


#: A thing that may differ, by its name.
_Facts = Mapping[str, Any]


def differences(then: Json, now: Json) -> Iterator[RunDifference]:
    """Yield what differs, in the order of the stages of a run: outcome first, selections last."""
    outline = bool(_funnel(then).get("outline") or _funnel(now).get("outline"))
    both_counted = all(_funnel(one).get(CANDIDATES, {}).get("steps") for one in (then, now))
    for facts in (_outcome, _options, _request_filters, _search, _filters, _weighers, _selections):
        before, after = facts(then), facts(now)
        for what in {**before, **after}:
            if what.startswith(_STEP) and not both_counted:
                continue
            if outline and (what == _QUERY or facts is _request_filters):
                continue
            if before.get(what) != after.get(what):
                yield RunDifference(what, before.get(what), after.get(what))
        if facts is _weighers:
            yield from _weights(then, now)


def _funnel(run: Json) -> Json:
    return run.get("funnel") or {}


def _outcome(run: Json) -> _Facts:
    obstacle = _funnel(run).get("obstacle") or {}
    return {
        "outcome": run["outcome"],
        "policy": run["policy"],
        "refusing stage": obstacle.get("reason"),
    }


def _options(run: Json) -> _Facts:
    conditions = run.get("conditions") or {}
    options = conditions.get("options", {})
    return {f"option {key}": value for key, value in options.items()}


def _request_filters(run: Json) -> _Facts:
    return {
        f"request filter {one['name']}": {
            key: value for key, value in one.items() if key not in {"name", "elapsed_ms"}
        }
        for one in _funnel(run).get("request_filters", ())
    }


_STEP, _QUERY = "step ", "query"


def _search(run: Json) -> _Facts:
    found = _funnel(run).get(CANDIDATES)
    if not found:
        return {}
    again = found.get("fallback", {}).get("steps", ())
    return {
        _QUERY: found["query"],
        "hosts found": found["hosts"],
        **_counts(_STEP, found["steps"]),
        **_counts(f"{_STEP}with VCPU for PCPU: ", again),
    }


def _filters(run: Json) -> _Facts:
    funnel = _funnel(run)
    later = funnel.get("later_instance") or {}
    return {
        **_counts("filter ", funnel.get("filters", ())),
        "instances placed before one found no host": later.get("placed"),
        **_counts("filter of the later instance ", later.get("filters", ())),
        "room": funnel.get("room"),
    }


def _counts(kind: str, stages: Iterable[Json]) -> dict[str, Any]:
    """Return how many each stage took in and let out; stages of one name are numbered."""
    counts: dict[str, Any] = {}
    for stage in stages:
        name = stage.get("name") or f"{stage['constraint']} {stage.get('detail', '')}".strip()
        what, number = f"{kind}{name}", 1
        while what in counts:
            number += 1
            what = f"{kind}{name} ({number})"
        counts[what] = {"before": stage["before"], "after": stage["after"]}
    return counts


def _weighers(run: Json) -> _Facts:
    """Return the multipliers of the weighers, and the first hosts that passed."""
    facts: dict[str, Any] = {
        f"multiplier of {one['name']}": one["multiplier"]
        for one in _funnel(run).get("weighers", ())
    }
    hosts = run.get("best") or ()
    return {**facts, "first hosts": [_named(one["host"], one["node"]) for one in hosts]}


def _weights(then: Json, now: Json) -> Iterator[RunDifference]:
    """Yield the weights that differ of each host that is among the first in both runs."""
    before, after = (
        {
            _named(one["host"], one["node"]): {
                "weight": one["weight"],
                **{name: weight["weighted"] for name, weight in one["weights"].items()},
            }
            for one in run.get("best") or ()
        }
        for run in (then, now)
    )
    for name in before:
        if name not in after or before[name] == after[name]:
            continue
        # A weigher that gives none of the first hosts any weight is not listed.
        pairs = {
            key: (before[name].get(key, 0.0), after[name].get(key, 0.0))
            for key in {**before[name], **after[name]}
        }
        unlike = {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}
        if unlike:
            was, is_now = ({key: pair[at] for key, pair in unlike.items()} for at in (0, 1))
            yield RunDifference(f"weights of {name}", was, is_now)


def _selections(run: Json) -> _Facts:
    """Return where each instance goes, with which allocations, and its alternates."""
    facts: dict[str, Any] = {}
    selections = run["selections"] or [()] * len(run["instances"])
    for instance, some in zip(run["instances"], selections, strict=True):
        uuid, names = (
            instance["uuid"],
            [_named(one["service_host"], one["nodename"]) for one in some],
        )
        facts[f"host of instance {uuid}"] = next(iter(names), None)
        facts[f"alternates of instance {uuid}"] = names[1:] or None
        for best in some[:1]:
            facts[f"weight of instance {uuid}"] = best["weight"]
            facts[f"allocations of instance {uuid}"] = best["allocation_request"]
    return facts


def _named(host: str, node: str) -> str:
    return host if host == node else f"{host} ({node})"
