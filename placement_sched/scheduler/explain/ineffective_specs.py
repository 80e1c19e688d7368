# SPDX-License-Identifier: Apache-2.0
"""Extra specs of a flavor that can have no effect, with the reasons."""

import re
from collections.abc import Iterator
from itertools import islice

from placement_sched.explain.values import FLAVOR, IneffectiveKey
from placement_sched.limits import MAX_COMPARED_NAMES
from placement_sched.model.names import suggest_name
from placement_sched.scheduler.extra_specs import find_validator, list_namespaces, list_plain_names
from placement_sched.scheduler.filters.extra_specs_ops import OPERATORS
from placement_sched.scheduler.filters.utils import HOST_ATTRIBUTES
from placement_sched.scheduler.host_state import get_known
from placement_sched.scheduler.plugins import Plugins
from placement_sched.scheduler.selection import SchedulingRun

_CAPABILITIES, _AGGREGATES = "ComputeCapabilitiesFilter", "AggregateInstanceExtraSpecsFilter"
#: The filters that read all keys of a prefix.
_FILTERS = {
    "capabilities": _CAPABILITIES,
    "aggregate_instance_extra_specs": _AGGREGATES,
    "trust": "TrustedFilter",
}
#: Keys and prefixes that the request groups, or the preferences of this service, report.
_REPORTED = re.compile(
    r"group_policy|scheduler:.*|(resources|trait)[a-zA-Z0-9_-]{0,64}:.*", re.DOTALL
)
#: A text that looks like an operator, such as ``>``, ``<is>`` or the start of ``>=4``.
_LIKE_OPERATOR = re.compile(r"<[a-z-]+>|s?[=!<>]=|=[<>]|s?[<>]|=")


def iterate_ineffective_specs(run: SchedulingRun) -> Iterator[IneffectiveKey]:
    """Yield at most ten extra specs without effect or with wrong operators."""
    stats = {name for state in run.hosts for name in get_known(state, "stats") or ()}
    reports = (
        IneffectiveKey(key, FLAVOR, f"{key}{reason}")
        for key, value in run.filtered_request.spec.flavor.extra_specs.items()
        if not _REPORTED.fullmatch(key)
        and (reason := _find_reason(key, value, run.request.plugins, stats))
    )
    return islice(reports, MAX_COMPARED_NAMES)


def _find_reason(key: str, value: str, plugins: Plugins, stats: set[str]) -> str | None:
    scope, colon, _ = key.partition(":")
    if colon and (reader := _FILTERS.get(scope)):
        if not plugins.has_filter(reader):
            return f" has no effect: {reader} is not enabled"
        return None if scope == "trust" else _find_wrong_operator(value)
    if find_validator(key) is not None:
        return None
    if colon and scope in list_namespaces():
        suggestion = suggest_name("extra spec", key, list_plain_names())
        return f" has no effect: nova has no such extra spec{suggestion}"
    if any(not type(each).__module__.startswith("placement_sched.") for each in plugins.all):
        return None  # third-party plugins may read the key
    if colon:
        suggestion = suggest_name("prefix", scope, (*list_namespaces(), *_FILTERS))
        return f" has no effect: no filter or weigher reads the prefix {scope!r}{suggestion}"
    return _find_reason_without_prefix(key, value, plugins, stats)


def _find_reason_without_prefix(
    key: str, value: str, plugins: Plugins, stats: set[str]
) -> str | None:
    is_attribute = key in HOST_ATTRIBUTES or key in stats
    if plugins.has_filter(_AGGREGATES) or (is_attribute and plugins.has_filter(_CAPABILITIES)):
        return _find_wrong_operator(value)
    if is_attribute:
        return f" has no effect: {_CAPABILITIES} is not enabled"
    return (
        " has no effect: no enabled filter reads this key without a prefix. Prefix it with "
        f"aggregate_instance_extra_specs: and enable {_AGGREGATES}, or with capabilities:"
    )


def _find_wrong_operator(value: str) -> str | None:
    """Return the end of a sentence about a value with a wrong operator."""
    words = value.split()
    match = _LIKE_OPERATOR.match(words[0]) if words else None
    if match is None or (words[0] in OPERATORS and len(words) > 1):
        return None
    if words[0] in OPERATORS:
        return f" matches no host: the operator {words[0]!r} has no value"
    if match[0] in OPERATORS:
        return f": {value!r} is compared as text. Set a blank after the operator {match[0]!r}"
    names = ", ".join(sorted(OPERATORS))
    return f": {match[0]!r} is not an operator, so {value!r} is compared as text. Use {names}"
