"""The page Policies: what holds under each scheduling policy, and where each value comes from."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import flask
from flask import request

from placement_sched.console.page import caller, page
from placement_sched.errors import NotFound
from placement_sched.model.document import Json
from placement_sched.model.explanation_reader import in_words
from placement_sched.model.names import suggested

#: What a policy itself sets comes first, and defaults come last, each in words.
SOURCES = {
    "policy": "the policy's section",
    "options_file": "the file of options",
    "environment": "environment",
    "configuration": "configuration",
    "default": "default",
}
_ORDER = tuple(SOURCES)
#: By what of a request its policy is chosen.
SELECTORS = {
    "hint": "the scheduler hint sched_policy",
    "availability_zone": "the availability zone that the request names",
    "tenant": "the project of the request",
    "extra_specs": "extra specs of the flavor",
}


def index() -> flask.Response:
    """Show every policy in short, one whole, and beside another what differs."""
    found = caller().get("/scheduler/v1/policies")
    policies = {one["name"]: one for one in found["policies"]}
    chosen = _of(policies, request.args.get("policy") or next(iter(policies)))
    beside = request.args.get("beside")
    other = _of(policies, beside) if beside else None
    values = {
        "policies": list(policies.values()),
        "selectors": [(name, SELECTORS.get(name, "")) for name in found["selectors"]],
        "chosen": chosen,
        "options": _options(chosen),
        "other": other,
        "differences": None if other is None else _differences(chosen, other),
        "sources": SOURCES,
        "access": found["access"],
    }
    return page("policies.html", "Policies", values)


def _of(policies: Mapping[str, Json], name: str) -> Json:
    try:
        return policies[name.lower()]
    except KeyError:
        instead = suggested("policy", name, policies)
        raise NotFound(f"there is no policy {name!r}{instead}") from None


def _options(policy: Json) -> list[tuple[str, Json]]:
    """Return the options of a policy, those that are set first."""
    options: Mapping[str, Json] = policy["options"]
    return sorted(options.items(), key=lambda pair: (_ORDER.index(pair[1]["source"]), pair[0]))


def _differences(one: Json, other: Json) -> list[tuple[str, str, str]]:
    """Return what differs between two policies: what it is, and how either has it."""
    rows = [
        (what.replace("_", " "), _joined(one[what]), _joined(other[what]))
        for what in ("request_filters", "filters")
    ]
    multipliers = [{w["name"]: w["multiplier"] for w in each["weighers"]} for each in (one, other)]
    rows += [
        (name, in_words(multipliers[0].get(name)), in_words(multipliers[1].get(name)))
        for name in dict.fromkeys([*multipliers[0], *multipliers[1]])
    ]
    names = dict.fromkeys([*one["options"], *other["options"]])
    rows += [(name, _value(one, name), _value(other, name)) for name in names]
    return [row for row in rows if row[1] != row[2]]


def _value(policy: Json, name: str) -> str:
    return in_words(policy["options"].get(name, {}).get("value"))


def _joined(names: Sequence[str]) -> str:
    return ", ".join(names) or "-"


VIEWS: Mapping[str, Callable[..., Any]] = {"/policies": index}
