# SPDX-License-Identifier: Apache-2.0
"""Rules that servers violate, and selection of violations by rule.

A rule is a family and a subject, such as ``trait CUSTOM_SSD``. A filter is a family of its own.
"""

from collections import Counter
from collections.abc import Collection, Mapping

from placement_sched.db.transaction import Connection
from placement_sched.errors import Invalid
from placement_sched.explain.host_verdict import RejectReason
from placement_sched.model.document import Json
from placement_sched.model.names import shorten_names, suggest_name
from placement_sched.model.rejection import CANDIDATES
from placement_sched.scheduler.filters import all_filters
from placement_sched.scheduler.plugins import get_plugins
from placement_sched.scheduler.request_filters import all_request_filters
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.scheduler.simulation import get_nodes

#: The family of each kind of rejection by the candidate search, and the key of its subject. Other
#: kinds are families of their own.
_FAMILIES = {
    "capacity": ("over capacity", ""),
    "no_inventory": ("inventory", "resource_class"),
    "allocation_unit": ("allocation unit", "resource_class"),
    "missing_trait": ("trait", "traits"),
    "forbidden_trait": ("forbidden trait", "traits"),
    "not_in_aggregate": ("aggregate", "aggregates"),
    "forbidden_aggregate": ("isolated aggregate", "aggregates"),
}
#: Values by the keys of :data:`FILTERS`. An empty collection selects everything.
Filters = Mapping[str, Collection[str]]
#: The filters of violations, as in the query.
FILTERS = ("host", "project_id", "rule", "ignore")
#: Maximum number of names in a rule.
_MAX_NAMES = 3


def build_rule(reason: RejectReason, aggregate_names: Mapping[str, str]) -> dict[str, str]:
    """Return the rule of a reason, and its family."""
    kind = reason.rejection.kind
    family, key = reason.name or kind, ""
    if reason.stage == CANDIDATES:
        family, key = _FAMILIES.get(kind, (kind, ""))
    subjects = reason.rejection.as_json().get(key) or ()
    names = [subjects] if isinstance(subjects, str) else list(subjects)
    words = shorten_names([aggregate_names.get(name, name) for name in names], _MAX_NAMES)
    return {"rule": f"{family} {words}" if names else family, "family": family}


def select_violations(
    connection: Connection, scheduler: Scheduler, report: Json, filters: Filters
) -> Json:
    """Return a report with only the selected violations, counted by rule.

    ``filters`` has values by the keys of :data:`FILTERS`. ``rule`` and ``ignore`` are rules or
    families. Raises :class:`Invalid`, with the nearest name, for an unknown host or rule.
    """
    hosts, projects, rules, ignored = (filters[key] for key in FILTERS)
    get_nodes(connection, list(hosts), "$.host")
    _check_rules(scheduler, report, filters)
    counts: Counter[str] = Counter()
    selected = []
    for violation in report["violations"]:
        reasons = []
        for reason in violation["reasons"]:
            names = {reason["rule"], reason["family"]}
            if names.isdisjoint(ignored) and not (rules and names.isdisjoint(rules)):
                reasons.append(reason)
        is_on_host = not hosts or violation["host"] in hosts
        if reasons and is_on_host and (not projects or violation["project_id"] in projects):
            selected.append({**violation, "reasons": reasons})
            counts.update({each["rule"] for each in reasons})
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    numbers = [{"rule": rule, "servers": number} for rule, number in ordered]
    return {**report, "rules": numbers, "total": len(selected), "violations": selected}


def _check_rules(scheduler: Scheduler, report: Json, filters: Filters) -> None:
    plugins = get_plugins(scheduler.live.get_settings(), scheduler.clock)
    names = {family for family, _ in _FAMILIES.values()}
    names |= {each.__name__ for each in (*all_filters(), *map(type, plugins.filters))}
    names |= {each.name or each.__name__ for each in all_request_filters()}
    reasons = [each for violation in report["violations"] for each in violation["reasons"]]
    names.update(each[key] for each in reasons for key in ("rule", "family"))
    for key in ("rule", "ignore"):
        if unknown := [value for value in filters[key] if value not in names]:
            hint = suggest_name("rule", unknown[0], names)
            raise Invalid(f"there is no rule {unknown[0]!r}{hint}", json_path=f"$.{key}")
