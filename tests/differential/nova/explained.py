# SPDX-License-Identifier: Apache-2.0
"""Intended differences from nova, and functions that detect them."""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from urllib.parse import parse_qsl

from tests.differential.comparison import Explanations, add_explanation, apply_explanations
from tests.differential.nova.differences import GROUP_SUFFIX_PATTERN, Differences, find_differences
from tests.differential.nova.generate.cloud import NODES
from tests.differential.nova.generate.draft import CUSTOM_RESOURCE_CLASSES, CUSTOM_TRAITS
from tests.differential.nova.generate.requests import RequestCase
from tests.differential.nova.sides import QueryResult

EXPLANATIONS: Explanations = {}
register_explanation = partial(add_explanation, EXPLANATIONS)

#: Parameters about aggregates, of the query and of the fallback query.
_MEMBER_OF_ASPECTS = ("member_of", "fallback member_of")
_LIMIT_ASPECTS = {"limit", "fallback limit"}
_TRAIT_SPEC_PATTERN = re.compile(r"trait(?:[a-zA-Z0-9_-]{1,64})?:(.*)", re.DOTALL)
_UNKNOWN_NAME_PATTERN = re.compile(r"No such (?:resource class|trait): (\S+)")


@dataclass(frozen=True)
class NovaResults:
    """A request and both results. ``get_nova_result`` sends another request to nova."""

    case: RequestCase
    ours: QueryResult
    theirs: QueryResult
    get_nova_result: Callable[[RequestCase], QueryResult]

    def has_verdicts(self, ours: str, *theirs: str) -> bool:
        return self.ours.verdict == ours and self.theirs.verdict in theirs


@register_explanation("an extra spec that nova's API rejects is 400")
def _explain_rejected_extra_spec(results: NovaResults, differences: Differences) -> set[str]:
    keys = results.theirs.api_rejection.get("keys", ())
    suffixes = [match[1] for match in map(GROUP_SUFFIX_PATTERN.fullmatch, keys) if match]
    named = any(repr(name) in results.ours.reason for name in (*keys, *suffixes))
    return {"verdict"} if named and results.has_verdicts("rejected", "query", "no host") else set()


@register_explanation("a trait without a name is ignored")
def _explain_trait_without_name(results: NovaResults, differences: Differences) -> set[str]:
    specs = results.case.request_spec["flavor"]["extra_specs"]
    nameless = [
        key for key in specs if (match := _TRAIT_SPEC_PATTERN.fullmatch(key)) and not match[1]
    ]
    if not nameless or not results.has_verdicts("query", "rejected", "no host"):
        return set()
    flavor = results.case.request_spec["flavor"]
    named = {key: value for key, value in specs.items() if key not in nameless}
    spec = {**results.case.request_spec, "flavor": {**flavor, "extra_specs": named}}
    case = replace(results.case, request_spec=spec)
    return _explain_verdict_without_other_differences(
        replace(results, case=case, theirs=results.get_nova_result(case))
    )


@register_explanation("a class or trait that is not there is named")
def _explain_unknown_trait_or_class(results: NovaResults, differences: Differences) -> set[str]:
    named = _UNKNOWN_NAME_PATTERN.match(results.ours.reason)
    unknown = named is not None and named[1] not in (*CUSTOM_RESOURCE_CLASSES, *CUSTOM_TRAITS)
    return (
        {"verdict"} if unknown and results.has_verdicts("rejected", "query", "no host") else set()
    )


@register_explanation("a request for an unreported host still shows its query")
def _explain_unreported_host(results: NovaResults, differences: Differences) -> set[str]:
    no_host = results.theirs.reason.startswith("NoValidHost")
    no_host &= results.ours.reason.endswith("no_valid_host")
    return {"verdict"} if no_host and results.has_verdicts("query", "no host") else set()


@register_explanation("hosts and nodes that exclude each other leave no host")
def _explain_contradictory_hosts(results: NovaResults, differences: Differences) -> set[str]:
    spec = results.case.request_spec
    destination = spec.get("requested_destination") or {}
    left = [
        node
        for node in NODES
        if {destination.get("host") or node.host, *(spec.get("force_hosts") or ())} == {node.host}
        and {destination.get("node") or node.node, *(spec.get("force_nodes") or ())} == {node.node}
    ]
    no_host = not left and results.ours.reason.endswith("no_valid_host")
    return {"in_tree", "limit", "fallback in_tree", "fallback limit"} if no_host else set()


@register_explanation("a request for a cell has no limit of candidates")
def _explain_cell_without_limit(results: NovaResults, differences: Differences) -> set[str]:
    destination = results.case.request_spec.get("requested_destination") or {}
    limits = [differences[name][0] for name in differences.keys() & _LIMIT_ASPECTS]
    is_unlimited = destination.get("cell") and limits.count(None) == len(limits)
    return _LIMIT_ASPECTS if is_unlimited else set()


@register_explanation("a request that contradicts itself is always 400")
def _explain_rejected_contradicting_request(
    results: NovaResults, differences: Differences
) -> set[str]:
    if not results.has_verdicts("rejected", "no host"):
        return set()
    spec = {**results.case.request_spec, "requested_destination": None}
    for key in ("force_hosts", "force_nodes"):
        spec.pop(key, None)
    options = {**results.case.options, "scheduler.placement_aggregate_required_for_tenants": False}
    anywhere = results.get_nova_result(replace(results.case, request_spec=spec, options=options))
    return {"verdict"} if anywhere.verdict == "rejected" else set()


@register_explanation("a zone that no aggregate has is rejected at once")
def _explain_unknown_availability_zone(results: NovaResults, differences: Differences) -> set[str]:
    zone = results.case.request_spec.get("availability_zone")
    zones = {item["metadata"].get("availability_zone") for item in results.case.cloud.aggregates}
    is_unknown = zone not in zones and "availability zone" in results.ours.reason
    return {"verdict"} if is_unknown and results.has_verdicts("no host", "query") else set()


@register_explanation("default_availability_zone means hosts that are in no other zone")
def _explain_default_availability_zone(results: NovaResults, differences: Differences) -> set[str]:
    if results.case.request_spec.get("availability_zone") != "nova":
        return set()
    zoned = {
        aggregate["uuid"]
        for aggregate in results.case.cloud.aggregates
        if aggregate["metadata"].get("availability_zone")
    }
    return {
        aspect
        for aspect in differences.keys() & _MEMBER_OF_ASPECTS
        if _list_forbidden_members(differences[aspect][0])
        == _list_forbidden_members(differences[aspect][1]) | zoned
        and _list_required_members(differences[aspect][0])
        == _list_required_members(differences[aspect][1])
    }


def _list_required_members(values: list[str] | None) -> list[str]:
    return [value for value in values or () if not value.startswith("!")]


def _list_forbidden_members(values: list[str] | None) -> set[str]:
    return {
        uuid
        for value in values or ()
        if value.startswith("!in:")
        for uuid in value.removeprefix("!in:").split(",")
    }


@register_explanation("an aggregate belongs to the project that filter_tenant_id names")
def _explain_aggregate_of_another_tenant(
    results: NovaResults, differences: Differences
) -> set[str]:
    theirs, ours = (
        _list_aggregates_of_tenant(results.case, by_tag=False),
        _list_aggregates_of_tenant(results.case, by_tag=True),
    )
    if theirs == ours:
        return set()
    if not ours and results.has_verdicts("no host", "query"):
        return {"verdict"} if "project" in results.ours.reason else set()
    own = ["in:" + ",".join(sorted(ours))] if ours else []
    return {
        aspect
        for aspect in differences.keys() & _MEMBER_OF_ASPECTS
        if sorted([*_remove_membership(theirs, differences[aspect][1]), *own])
        == (differences[aspect][0] or [])
    }


def _list_aggregates_of_tenant(case: RequestCase, *, by_tag: bool) -> set[str]:
    project = case.request_spec.get("project_id")
    return {
        aggregate["uuid"]
        for aggregate in case.cloud.aggregates
        if any(key.startswith("filter_tenant_id") for key in aggregate["metadata"])
        and any(
            value == project and (key.startswith("filter_tenant_id") or not by_tag)
            for key, value in aggregate["metadata"].items()
        )
    }


def _remove_membership(uuids: Collection[str], values: list[str] | None) -> list[str]:
    left = list(values or ())
    membership = "in:" + ",".join(sorted(uuids))
    if membership in left:
        left.remove(membership)
    return left


@register_explanation("an image may have no disk format")
def _explain_image_without_disk_format(results: NovaResults, differences: Differences) -> set[str]:
    has_failed = results.theirs.reason.startswith("NotImplementedError: Cannot load 'disk_format'")
    if not has_failed or (results.case.request_spec.get("image") or {}).get("disk_format"):
        return set()
    options = {**results.case.options, "scheduler.query_placement_for_image_type_support": False}
    return _explain_verdict_without_other_differences(
        replace(results, theirs=results.get_nova_result(replace(results.case, options=options)))
    )


@register_explanation("a group without resources has no resources parameter")
def _explain_group_without_resources(results: NovaResults, differences: Differences) -> set[str]:
    pairs = parse_qsl(results.theirs.query, keep_blank_values=True)
    empty = any(key.startswith("resources") and not value for key, value in pairs)
    if not empty or results.theirs.verdict != "rejected":
        return set()
    return _explain_verdict_without_other_differences(
        replace(results, theirs=replace(results.theirs, verdict="query"))
    )


def _explain_verdict_without_other_differences(results: NovaResults) -> set[str]:
    _, left = explain_differences(
        results, find_differences(results.case, results.ours, results.theirs)
    )
    return set() if left else {"verdict"}


def explain_differences(
    results: NovaResults, differences: Differences
) -> tuple[list[str], Differences]:
    return apply_explanations(EXPLANATIONS, results, differences)
