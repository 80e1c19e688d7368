# SPDX-License-Identifier: Apache-2.0
"""Intended differences from nova, and functions that detect them."""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from urllib.parse import parse_qsl

from tests.differential.comparison import Explanations, add_explanation, apply_explanations
from tests.differential.nova.differences import SUFFIXED, Differences, differences
from tests.differential.nova.generate.cloud import NODES
from tests.differential.nova.generate.draft import CUSTOM_CLASSES, CUSTOM_TRAITS
from tests.differential.nova.generate.requests import RequestCase
from tests.differential.nova.sides import Answer

EXPLANATIONS: Explanations = {}
explains = partial(add_explanation, EXPLANATIONS)

#: Parameters about aggregates, of the query and of the fallback query.
_MEMBERSHIPS = ("member_of", "fallback member_of")
_LIMITS = {"limit", "fallback limit"}
_TRAIT_OF = re.compile(r"trait(?:[a-zA-Z0-9_-]{1,64})?:(.*)", re.DOTALL)
_UNKNOWN = re.compile(r"No such (?:resource class|trait): (\S+)")


@dataclass(frozen=True)
class NovaAnswers:
    """A request and both answers. ``again`` sends another request to nova."""

    case: RequestCase
    ours: Answer
    theirs: Answer
    again: Callable[[RequestCase], Answer]

    def has_verdicts(self, ours: str, *theirs: str) -> bool:
        return self.ours.verdict == ours and self.theirs.verdict in theirs


@explains("an extra spec that nova's API rejects is 400")
def _explain_rejected_extra_spec(both: NovaAnswers, found: Differences) -> set[str]:
    keys = both.theirs.api_rejection.get("keys", ())
    suffixes = [match[1] for match in map(SUFFIXED.fullmatch, keys) if match]
    named = any(repr(name) in both.ours.reason for name in (*keys, *suffixes))
    return {"verdict"} if named and both.has_verdicts("rejected", "query", "no host") else set()


@explains("a trait without a name is ignored")
def _explain_trait_without_name(both: NovaAnswers, found: Differences) -> set[str]:
    specs = both.case.request_spec["flavor"]["extra_specs"]
    nameless = [key for key in specs if (match := _TRAIT_OF.fullmatch(key)) and not match[1]]
    if not nameless or not both.has_verdicts("query", "rejected", "no host"):
        return set()
    flavor = both.case.request_spec["flavor"]
    named = {key: value for key, value in specs.items() if key not in nameless}
    spec = {**both.case.request_spec, "flavor": {**flavor, "extra_specs": named}}
    case = replace(both.case, request_spec=spec)
    return _explain_verdict_without_other_differences(
        replace(both, case=case, theirs=both.again(case))
    )


@explains("a class or trait that is not there is named")
def _explain_unknown_trait_or_class(both: NovaAnswers, found: Differences) -> set[str]:
    named = _UNKNOWN.match(both.ours.reason)
    unknown = named is not None and named[1] not in (*CUSTOM_CLASSES, *CUSTOM_TRAITS)
    return {"verdict"} if unknown and both.has_verdicts("rejected", "query", "no host") else set()


@explains("a request for an unreported host still shows its query")
def _explain_unreported_host(both: NovaAnswers, found: Differences) -> set[str]:
    no_host = both.theirs.reason.startswith("NoValidHost")
    no_host &= both.ours.reason.endswith("no_valid_host")
    return {"verdict"} if no_host and both.has_verdicts("query", "no host") else set()


@explains("hosts and nodes that exclude each other leave no host")
def _explain_contradictory_hosts(both: NovaAnswers, found: Differences) -> set[str]:
    spec = both.case.request_spec
    destination = spec.get("requested_destination") or {}
    left = [
        node
        for node in NODES
        if {destination.get("host") or node.host, *(spec.get("force_hosts") or ())} == {node.host}
        and {destination.get("node") or node.node, *(spec.get("force_nodes") or ())} == {node.node}
    ]
    no_host = not left and both.ours.reason.endswith("no_valid_host")
    return {"in_tree", "limit", "fallback in_tree", "fallback limit"} if no_host else set()


@explains("a request for a cell has no limit of candidates")
def _explain_cell_without_limit(both: NovaAnswers, found: Differences) -> set[str]:
    destination = both.case.request_spec.get("requested_destination") or {}
    limits = [found[name][0] for name in found.keys() & _LIMITS]
    is_unlimited = destination.get("cell") and limits.count(None) == len(limits)
    return _LIMITS if is_unlimited else set()


@explains("an invalid PCI alias is refused when it is read")
def _explain_invalid_pci_alias(both: NovaAnswers, found: Differences) -> set[str]:
    unnamed = "pci_passthrough:alias" not in both.case.request_spec["flavor"]["extra_specs"]
    is_rejected = unnamed and both.ours.reason.startswith("overrides: [pci] alias ")
    return (
        {"verdict"} if is_rejected and both.has_verdicts("rejected", "query", "no host") else set()
    )


@explains("a request that contradicts itself is always 400")
def _explain_contradiction_reported_first(both: NovaAnswers, found: Differences) -> set[str]:
    if not both.has_verdicts("rejected", "no host"):
        return set()
    spec = {**both.case.request_spec, "requested_destination": None}
    for key in ("force_hosts", "force_nodes"):
        spec.pop(key, None)
    options = {**both.case.options, "scheduler.placement_aggregate_required_for_tenants": False}
    anywhere = both.again(replace(both.case, request_spec=spec, options=options))
    return {"verdict"} if anywhere.verdict == "rejected" else set()


@explains("a zone that no aggregate has is rejected at once")
def _explain_unknown_availability_zone(both: NovaAnswers, found: Differences) -> set[str]:
    zone = both.case.request_spec.get("availability_zone")
    zones = {item["metadata"].get("availability_zone") for item in both.case.cloud.aggregates}
    is_unknown = zone not in zones and "availability zone" in both.ours.reason
    return {"verdict"} if is_unknown and both.has_verdicts("no host", "query") else set()


@explains("default_availability_zone means hosts that are in no other zone")
def _explain_default_availability_zone(both: NovaAnswers, found: Differences) -> set[str]:
    if both.case.request_spec.get("availability_zone") != "nova":
        return set()
    zoned = {
        aggregate["uuid"]
        for aggregate in both.case.cloud.aggregates
        if aggregate["metadata"].get("availability_zone")
    }
    return {
        aspect
        for aspect in found.keys() & _MEMBERSHIPS
        if _list_forbidden_members(found[aspect][0])
        == _list_forbidden_members(found[aspect][1]) | zoned
        and _list_required_members(found[aspect][0]) == _list_required_members(found[aspect][1])
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


@explains("an aggregate belongs to the project that filter_tenant_id names")
def _explain_aggregate_of_another_tenant(both: NovaAnswers, found: Differences) -> set[str]:
    theirs, ours = (
        _list_aggregates_of_tenant(both.case, by_tag=False),
        _list_aggregates_of_tenant(both.case, by_tag=True),
    )
    if theirs == ours:
        return set()
    if not ours and both.has_verdicts("no host", "query"):
        return {"verdict"} if "project" in both.ours.reason else set()
    own = ["in:" + ",".join(sorted(ours))] if ours else []
    return {
        aspect
        for aspect in found.keys() & _MEMBERSHIPS
        if sorted([*_remove_membership(theirs, found[aspect][1]), *own]) == (found[aspect][0] or [])
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


@explains("an image may have no disk format")
def _explain_image_without_disk_format(both: NovaAnswers, found: Differences) -> set[str]:
    has_failed = both.theirs.reason.startswith("NotImplementedError: Cannot load 'disk_format'")
    if not has_failed or (both.case.request_spec.get("image") or {}).get("disk_format"):
        return set()
    options = {**both.case.options, "scheduler.query_placement_for_image_type_support": False}
    return _explain_verdict_without_other_differences(
        replace(both, theirs=both.again(replace(both.case, options=options)))
    )


@explains("a group without resources has no resources parameter")
def _explain_group_without_resources(both: NovaAnswers, found: Differences) -> set[str]:
    pairs = parse_qsl(both.theirs.query, keep_blank_values=True)
    empty = any(key.startswith("resources") and not value for key, value in pairs)
    if not empty or both.theirs.verdict != "rejected":
        return set()
    return _explain_verdict_without_other_differences(
        replace(both, theirs=replace(both.theirs, verdict="query"))
    )


def _explain_verdict_without_other_differences(both: NovaAnswers) -> set[str]:
    _, left = explain_differences(both, differences(both.case, both.ours, both.theirs))
    return set() if left else {"verdict"}


def explain_differences(both: NovaAnswers, found: Differences) -> tuple[list[str], Differences]:
    return apply_explanations(EXPLANATIONS, both, found)
