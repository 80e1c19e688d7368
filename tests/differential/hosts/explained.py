# SPDX-License-Identifier: Apache-2.0
"""Intended differences from nova, and functions that detect them."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from tests.differential.comparison import Explanations, add_explanation, apply_explanations
from tests.differential.hosts.case import NOW, WEIGHERS, HostsCase
from tests.differential.hosts.differences import Aspect, Differences
from tests.differential.hosts.generate.places import MULTIPLIERS
from tests.differential.hosts.sides import HostsResult

EXPLANATIONS: Explanations = {}
register_explanation = partial(add_explanation, EXPLANATIONS)

_EXTRA_SPEC_REJECTION_PATTERN = re.compile(r"rejects: extra spec '([^']+)': ")
_NUMBER_OPERATORS = {"=", "==", "!=", ">=", "<="}


@dataclass(frozen=True)
class HostResults:
    """A case and both results."""

    case: HostsCase
    ours: HostsResult
    theirs: HostsResult

    def find_report_of_host(self, host: str, part: str = "report") -> dict[str, Any]:
        return next(
            item[part]
            for place, item in enumerate(self.case.hosts)
            if self.case.format_host_and_node(place) == host
        )

    def list_metadata_of_host(self, host: str, key: str) -> Iterator[str]:
        name = self.find_report_of_host(host)["host"]
        for aggregate in self.case.aggregates:
            if name in aggregate["hosts"] and key in aggregate["metadata"]:
                yield aggregate["metadata"][key]

    def list_instances_of_host(self, host: str) -> set[str]:
        return {item["uuid"] for item in self.case.instances if item["host"] == host}

    @property
    def image_properties(self) -> Mapping[str, Any]:
        return self.case.request_spec["image"]["properties"]


#: Returns whether an intended difference explains two values: of a host, ours, nova's.
HostCheck = Callable[[HostResults, str, Any, Any], bool]


def _explain_plugins(name: str, *plugins: str) -> Callable[[HostCheck], HostCheck]:
    def add_check(check: HostCheck) -> HostCheck:
        @register_explanation(name)
        def list_explained_aspects(results: HostResults, differences: Differences) -> set[Aspect]:
            return {
                aspect
                for aspect, (ours, theirs) in differences.items()
                if aspect[0] in {"filter", "weigher"}
                and aspect[1] in plugins
                and check(results, aspect[2], ours, theirs)
            }

        return check

    return add_check


def _is_failure(verdict: Any, *words: str) -> bool:
    return isinstance(verdict, str) and verdict.startswith(f"fails: {' '.join(words)}")


@_explain_plugins(
    "a comparison that cannot be made is 400",
    "AggregateInstanceExtraSpecsFilter",
    "ComputeCapabilitiesFilter",
)
def _is_number_operator_on_text(results: HostResults, host: str, ours: Any, theirs: Any) -> bool:
    named = _EXTRA_SPEC_REJECTION_PATTERN.match(ours) if isinstance(ours, str) else None
    if named is None or theirs is not False:
        return False
    first, *words = results.case.request_spec["flavor"]["extra_specs"][named[1]].split()
    if first == "<or>":
        return not words
    return first in _NUMBER_OPERATORS and bool(words) and not _is_number(words[0])


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@_explain_plugins(
    "a host that reported no metrics or CPUs is evaluated", "MetricsFilter", "CPUWeigher"
)
def _is_report_incomplete(results: HostResults, host: str, ours: Any, theirs: Any) -> bool:
    hosts = (
        [host]
        if host
        else [results.case.format_host_and_node(place) for place in results.theirs.weighed]
    )
    is_incomplete = any(results.find_report_of_host(name)["free_disk_gb"] is None for name in hosts)
    return is_incomplete and not isinstance(ours, str) and _is_failure(theirs, "TypeError:")


@_explain_plugins("a host without an address is near no address", "SimpleCIDRAffinityFilter")
def _is_host_without_address(results: HostResults, host: str, ours: Any, theirs: Any) -> bool:
    report = results.find_report_of_host(host)
    is_missing = report["host_ip"] is None or report["free_disk_gb"] is None
    return is_missing and ours is False and _is_failure(theirs, "TypeError:")


@_explain_plugins("the hint cidr needs no slash", "SimpleCIDRAffinityFilter")
def _is_cidr_without_slash(results: HostResults, host: str, ours: Any, theirs: Any) -> bool:
    length = results.case.request_spec["scheduler_hints"].get("cidr", "/24")
    return not length.startswith("/") and isinstance(ours, bool) and theirs is not ours


@_explain_plugins("hw_maxphysaddr_bits of an image is compared", "ImagePropertiesFilter")
def _are_address_bits_requested_by_image(
    results: HostResults, host: str, ours: Any, theirs: Any
) -> bool:
    has_property = "hw_maxphysaddr_bits" in results.image_properties
    return has_property and isinstance(ours, bool) and _is_failure(theirs, "AttributeError: 'str'")


@_explain_plugins("the VM mode xen needs a host with that mode", "ImagePropertiesFilter")
def _is_hypervisor_compared_with_vm_mode(
    results: HostResults, host: str, ours: Any, theirs: Any
) -> bool:
    requested = {results.image_properties.get(name) for name in ("img_hv_type", "hw_vm_mode")} & {
        "xen",
        "uml",
    }
    supported = results.find_report_of_host(host)["supported_hv_specs"]
    return bool(requested) and ours is False and theirs is True and any(
        requested & {hypervisor, mode} and hypervisor != mode for _, hypervisor, mode in supported
    )  # fmt: skip


@_explain_plugins("$host_ip is compared as text", "JsonFilter")
def _is_address_compared_as_text(results: HostResults, host: str, ours: Any, theirs: Any) -> bool:
    is_named = "$host_ip" in results.case.request_spec["scheduler_hints"].get("query", "")
    return is_named and isinstance(ours, bool) and (theirs is not ours)


@_explain_plugins("capabilities:service: finds the service", "ComputeCapabilitiesFilter")
def _is_service_capability_required(
    results: HostResults, host: str, ours: Any, theirs: Any
) -> bool:
    keys = results.case.request_spec["flavor"]["extra_specs"]
    is_named = any(key.startswith("capabilities:service:") for key in keys)
    return is_named and ours is not False and theirs is False


@register_explanation("an aggregate's multiplier that is not a number is ignored")
def _explain_invalid_aggregate_multiplier(
    results: HostResults, differences: Differences
) -> set[Aspect]:
    return {
        (kind, name, host)
        for (kind, name, host), (ours, _) in differences.items()
        if kind == "multipliers"
        and _find_smallest_aggregate_multiplier(results, host, _MULTIPLIER_KEYS_BY_WEIGHER[name])
        == abs(ours)
    }


def _find_smallest_aggregate_multiplier(results: HostResults, host: str, key: str) -> float | None:
    values = [*results.list_metadata_of_host(host, key)]
    numbers = [float(value) for value in values if _is_number(value)]
    return abs(min(numbers)) if numbers and len(numbers) < len(values) else None


_MULTIPLIER_KEYS_BY_WEIGHER = {
    name: f"{multiplier}_weight_multiplier"
    for name, multiplier in zip(WEIGHERS, MULTIPLIERS, strict=True)
}


@_explain_plugins(
    "same_host and different_host may have uuids in capitals",
    "SameHostFilter",
    "DifferentHostFilter",
)
def _is_instance_uuid_uppercase(results: HostResults, host: str, ours: Any, theirs: Any) -> bool:
    hints = results.case.request_spec["scheduler_hints"]
    named = [hints.get(name, ()) for name in ("same_host", "different_host")]
    uuids = [uuid for hint in named for uuid in ([hint] if isinstance(hint, str) else hint)]
    here = results.list_instances_of_host(results.find_report_of_host(host)["host"])
    is_uppercase = any(uuid not in here and uuid.lower() in here for uuid in uuids)
    return is_uppercase and isinstance(ours, bool) and theirs is (not ours)


@_explain_plugins(
    "the hosts that a request's group names count as hosts of members",
    "ServerGroupAntiAffinityFilter",
)
def _is_host_named_by_group(results: HostResults, host: str, ours: Any, theirs: Any) -> bool:
    group = results.case.request_spec.get("instance_group") or {"hosts": (), "members": ()}
    name = results.find_report_of_host(host)["host"]
    named = name in group["hosts"] and not results.list_instances_of_host(name) & set(
        group["members"]
    )
    return named and ours is False and theirs is True


@_explain_plugins(
    "an instance's image that cannot be read has no properties", "ImagePropertiesWeigher"
)
def _is_instance_image_invalid(results: HostResults, host: str, ours: Any, theirs: Any) -> bool:
    return (
        not isinstance(ours, str) and _is_failure(theirs, "ValueError:") and "not valid" in theirs
    )


@_explain_plugins(
    "one matching value of several aggregates suffices", "AggregateInstanceExtraSpecsFilter"
)
def _is_aggregate_value_incomparable(
    results: HostResults, host: str, ours: Any, theirs: Any
) -> bool:
    return ours is True and _is_failure(theirs, "ValueError: could not convert")


@_explain_plugins("a host whose clock is ahead is up", "ComputeFilter")
def _is_heartbeat_in_the_future(results: HostResults, host: str, ours: Any, theirs: Any) -> bool:
    last_seen_up = results.find_report_of_host(host, "service")["last_seen_up"]
    return datetime.fromisoformat(last_seen_up) > NOW and ours is True and theirs is False


def explain_differences(
    results: HostResults, differences: Differences
) -> tuple[list[str], Differences]:
    return apply_explanations(EXPLANATIONS, results, differences)
