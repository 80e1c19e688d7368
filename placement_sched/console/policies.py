# SPDX-License-Identifier: Apache-2.0
"""Policies page: the effective options of each scheduling policy and their sources."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import flask
from flask import request

from placement_sched.console.page import build_share, get_api_client, render_page
from placement_sched.errors import NotFound
from placement_sched.model.document import Json
from placement_sched.model.explanation_reader import format_value
from placement_sched.model.names import suggest_name

_POLICIES = "/scheduler/v1/policies"
#: Sources of options, in display order, with the texts to show.
SOURCES = {
    "policy": "the policy's section",
    "options_file": "the file of options",
    "environment": "environment",
    "configuration": "configuration",
    "default": "default",
}
_ORDER = tuple(SOURCES)
#: The criteria that select a policy, by selector.
SELECTORS = {
    "hint": "the scheduler hint sched_policy",
    "availability_zone": "the availability zone that the request names",
    "tenant": "the project of the request",
    "extra_specs": "extra specs of the flavor",
}


def index() -> flask.Response:
    """Show the list of policies, a policy in full, and its differences from another."""
    document = get_api_client().get(_POLICIES)
    policies = {policy["name"]: policy for policy in document["policies"]}
    chosen = _get_policy(policies, request.args.get("policy") or next(iter(policies)))
    other_name = request.args.get("beside")
    other = _get_policy(policies, other_name) if other_name else None
    values = {
        "policies": list(policies.values()),
        "selectors": [(name, SELECTORS.get(name, "")) for name in document["selectors"]],
        "chosen": chosen,
        "options": _sort_options(chosen),
        "other": other,
        "differences": None if other is None else _compare_policies(chosen, other),
        "sources": SOURCES,
        "access": document["access"],
        "share": build_share(_POLICIES, command=["policy", "list"]),
    }
    return render_page("policies.html", "Policies", values)


def _get_policy(policies: Mapping[str, Json], name: str) -> Json:
    try:
        return policies[name.lower()]
    except KeyError:
        suggestion = suggest_name("policy", name, policies)
        raise NotFound(f"there is no policy {name!r}{suggestion}") from None


def _sort_options(policy: Json) -> list[tuple[str, Json]]:
    """Sort the options of a policy by source and name."""
    options: Mapping[str, Json] = policy["options"]
    return sorted(options.items(), key=lambda pair: (_ORDER.index(pair[1]["source"]), pair[0]))


def _compare_policies(policy: Json, other: Json) -> list[tuple[str, str, str]]:
    """List the differences between two policies: name, value and other value."""
    rows = [
        (key.replace("_", " "), _join_names(policy[key]), _join_names(other[key]))
        for key in ("request_filters", "filters")
    ]
    multipliers = [{w["name"]: w["multiplier"] for w in p["weighers"]} for p in (policy, other)]
    rows += [
        (name, format_value(multipliers[0].get(name)), format_value(multipliers[1].get(name)))
        for name in dict.fromkeys([*multipliers[0], *multipliers[1]])
    ]
    names = dict.fromkeys([*policy["options"], *other["options"]])
    rows += [(name, _format_option(policy, name), _format_option(other, name)) for name in names]
    return [row for row in rows if row[1] != row[2]]


def _format_option(policy: Json, name: str) -> str:
    return format_value(policy["options"].get(name, {}).get("value"))


def _join_names(names: Sequence[str]) -> str:
    return ", ".join(names) or "-"


VIEWS: Mapping[str, Callable[..., Any]] = {"/policies": index}
