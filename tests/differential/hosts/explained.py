# SPDX-License-Identifier: Apache-2.0
"""Intended differences from nova, each with a reason and a function that detects it."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tests.differential.comparison import Explanation, apply_explanations
from tests.differential.hosts.case import NOW, Case
from tests.differential.hosts.differences import Aspect, Differences
from tests.differential.hosts.sides import Answer

_EXTRA_SPEC = re.compile(r"rejects: extra spec '([^']+)': ")
_COMPARING_NUMBERS = {"=", "==", "!=", ">=", "<="}


@dataclass(frozen=True)
class HostAnswers:
    """A case and both answers."""

    case: Case
    ours: Answer
    theirs: Answer

    def reports(self, host: str) -> dict[str, Any]:
        return next(
            item["report"]
            for place, item in enumerate(self.case.hosts)
            if self.case.host_and_node_of(place) == host
        )

    def service(self, host: str) -> dict[str, Any]:
        return next(
            item["service"]
            for place, item in enumerate(self.case.hosts)
            if self.case.host_and_node_of(place) == host
        )

    def metadata(self, host: str, key: str) -> Iterator[str]:
        name = self.reports(host)["host"]
        for aggregate in self.case.aggregates:
            if name in aggregate["hosts"] and key in aggregate["metadata"]:
                yield aggregate["metadata"][key]

    def instances(self, host: str) -> set[str]:
        return {item["uuid"] for item in self.case.instances if item["host"] == host}

    @property
    def properties(self) -> Mapping[str, Any]:
        return self.case.request_spec["image"]["properties"]


#: Returns whether an intended difference explains two values: of a host, ours, nova's.
Check = Callable[[HostAnswers, str, Any, Any], bool]


def _for_filter_verdicts(
    *kinds: tuple[str, str], check: Check
) -> Callable[[HostAnswers, Differences], set[Aspect]]:
    def explains(both: HostAnswers, found: Differences) -> set[Aspect]:
        return {
            aspect
            for aspect, (ours, theirs) in found.items()
            if aspect[:2] in kinds and check(both, aspect[2], ours, theirs)
        }

    return explains


def _is_failure(verdict: Any, *words: str) -> bool:
    return isinstance(verdict, str) and verdict.startswith(f"fails: {' '.join(words)}")


def _number_operator_on_text(both: HostAnswers, host: str, ours: Any, theirs: Any) -> bool:
    named = _EXTRA_SPEC.match(ours) if isinstance(ours, str) else None
    if named is None or theirs is not False:
        return False
    first, *words = both.case.request_spec["flavor"]["extra_specs"][named[1]].split()
    if first == "<or>":
        return not words
    return first in _COMPARING_NUMBERS and bool(words) and not _is_number(words[0])


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _incomplete_report(both: HostAnswers, host: str, ours: Any, theirs: Any) -> bool:
    hosts = [host] if host else [both.case.host_and_node_of(place) for place in both.theirs.weighed]
    is_incomplete = any(both.reports(name)["free_disk_gb"] is None for name in hosts)
    return is_incomplete and not isinstance(ours, str) and _is_failure(theirs, "TypeError:")


def _host_without_address(both: HostAnswers, host: str, ours: Any, theirs: Any) -> bool:
    report = both.reports(host)
    is_missing = report["host_ip"] is None or report["free_disk_gb"] is None
    return is_missing and ours is False and _is_failure(theirs, "TypeError:")


def _cidr_without_slash(both: HostAnswers, host: str, ours: Any, theirs: Any) -> bool:
    length = both.case.request_spec["scheduler_hints"].get("cidr", "/24")
    return not length.startswith("/") and isinstance(ours, bool) and theirs is not ours


def _address_bits_of_image(both: HostAnswers, host: str, ours: Any, theirs: Any) -> bool:
    has_property = "hw_maxphysaddr_bits" in both.properties
    return has_property and isinstance(ours, bool) and _is_failure(theirs, "AttributeError: 'str'")


def _hypervisor_like_mode(both: HostAnswers, host: str, ours: Any, theirs: Any) -> bool:
    requested = {both.properties.get(name) for name in ("img_hv_type", "hw_vm_mode")} & {
        "xen",
        "uml",
    }
    supported = both.reports(host)["supported_hv_specs"]
    return bool(requested) and ours is False and theirs is True and any(
        requested & {hypervisor, mode} and hypervisor != mode for _, hypervisor, mode in supported
    )  # fmt: skip


def _address_compared_as_text(both: HostAnswers, host: str, ours: Any, theirs: Any) -> bool:
    is_named = "$host_ip" in both.case.request_spec["scheduler_hints"].get("query", "")
    return is_named and isinstance(ours, bool) and (theirs is not ours)


def _service_capability(both: HostAnswers, host: str, ours: Any, theirs: Any) -> bool:
    keys = both.case.request_spec["flavor"]["extra_specs"]
    is_named = any(key.startswith("capabilities:service:") for key in keys)
    return is_named and ours is not False and theirs is False


def _invalid_aggregate_multiplier(both: HostAnswers, found: Differences) -> set[Aspect]:
    return {
        (kind, name, host)
        for (kind, name, host), (ours, _) in found.items()
        if kind == "multipliers"
        and _smallest_aggregate_multiplier(both, host, _KEYS[name]) == abs(ours)
    }


def _smallest_aggregate_multiplier(both: HostAnswers, host: str, key: str) -> float | None:
    values = [*both.metadata(host, key)]
    numbers = [float(value) for value in values if _is_number(value)]
    return abs(min(numbers)) if numbers and len(numbers) < len(values) else None


_KEYS = {
    "BuildFailureWeigher": "build_failure_weight_multiplier",
    "CPUWeigher": "cpu_weight_multiplier",
    "CrossCellWeigher": "cross_cell_move_weight_multiplier",
    "DiskWeigher": "disk_weight_multiplier",
    "HypervisorVersionWeigher": "hypervisor_version_weight_multiplier",
    "ImagePropertiesWeigher": "image_props_weight_multiplier",
    "IoOpsWeigher": "io_ops_weight_multiplier",
    "MetricsWeigher": "metrics_weight_multiplier",
    "NumInstancesWeigher": "num_instances_weight_multiplier",
    "RAMWeigher": "ram_weight_multiplier",
    "ServerGroupSoftAffinityWeigher": "soft_affinity_weight_multiplier",
    "ServerGroupSoftAntiAffinityWeigher": "soft_anti_affinity_weight_multiplier",
}


def _uppercase_instance_uuid(both: HostAnswers, host: str, ours: Any, theirs: Any) -> bool:
    hints = both.case.request_spec["scheduler_hints"]
    named = [hints.get(name, ()) for name in ("same_host", "different_host")]
    uuids = [uuid for hint in named for uuid in ([hint] if isinstance(hint, str) else hint)]
    here = both.instances(both.reports(host)["host"])
    found = any(uuid not in here and uuid.lower() in here for uuid in uuids)
    return found and isinstance(ours, bool) and theirs is (not ours)


def _host_named_by_group(both: HostAnswers, host: str, ours: Any, theirs: Any) -> bool:
    group = both.case.request_spec.get("instance_group") or {"hosts": (), "members": ()}
    name = both.reports(host)["host"]
    named = name in group["hosts"] and not both.instances(name) & set(group["members"])
    return named and ours is False and theirs is True


def _invalid_instance_image(both: HostAnswers, host: str, ours: Any, theirs: Any) -> bool:
    return (
        not isinstance(ours, str) and _is_failure(theirs, "ValueError:") and "not valid" in theirs
    )


def _incomparable_aggregate_value(both: HostAnswers, host: str, ours: Any, theirs: Any) -> bool:
    return ours is True and _is_failure(theirs, "ValueError: could not convert")


def _heartbeat_in_the_future(both: HostAnswers, host: str, ours: Any, theirs: Any) -> bool:
    last_seen_up = both.service(host)["last_seen_up"]
    return datetime.fromisoformat(last_seen_up) > NOW and ours is True and theirs is False


EXPLANATIONS = (
    Explanation(
        "a host whose clock is ahead is up",
        "A host is up while its last_seen_up is younger than service_down_time; nova takes a "
        "host whose clock is that far ahead for down.",
        _for_filter_verdicts(("filter", "ComputeFilter"), check=_heartbeat_in_the_future),
    ),
    Explanation(
        "a comparison that cannot be made is 400",
        "This is an extra spec that compares a word as a number, or with nothing; the error "
        "names it. nova rejects hosts that have nothing to compare, and fails on the first host "
        "that has.",
        _for_filter_verdicts(
            ("filter", "AggregateInstanceExtraSpecsFilter"),
            ("filter", "ComputeCapabilitiesFilter"),
            check=_number_operator_on_text,
        ),
    ),
    Explanation(
        "a host that reported no metrics or CPUs is evaluated",
        "nova fails on such a host, and with it every request.",
        _for_filter_verdicts(
            ("filter", "MetricsFilter"), ("weigher", "CPUWeigher"), check=_incomplete_report
        ),
    ),
    Explanation(
        "a host without an address is near no address",
        "It is rejected for a request that asks for a host near an address; nova fails on it.",
        _for_filter_verdicts(("filter", "SimpleCIDRAffinityFilter"), check=_host_without_address),
    ),
    Explanation(
        "the hint cidr needs no slash",
        "It may be 24 as well as /24; nova appends it to the address as it is.",
        _for_filter_verdicts(("filter", "SimpleCIDRAffinityFilter"), check=_cidr_without_slash),
    ),
    Explanation(
        "hw_maxphysaddr_bits of an image is compared",
        "A host that reports fewer bits is rejected; nova fails on images with this property.",
        _for_filter_verdicts(("filter", "ImagePropertiesFilter"), check=_address_bits_of_image),
    ),
    Explanation(
        "the VM mode xen needs a host with that mode",
        "nova also accepts a host whose hypervisor is xen.",
        _for_filter_verdicts(("filter", "ImagePropertiesFilter"), check=_hypervisor_like_mode),
    ),
    Explanation(
        "$host_ip is compared as text",
        "A query may ask for it; in nova it is equal to nothing that a query can contain.",
        _for_filter_verdicts(("filter", "JsonFilter"), check=_address_compared_as_text),
    ),
    Explanation(
        "capabilities:service: finds the service",
        "It leads to what is known of the host's compute service; nova finds nothing there.",
        _for_filter_verdicts(("filter", "ComputeCapabilitiesFilter"), check=_service_capability),
    ),
    Explanation(
        "an aggregate's multiplier that is not a number is ignored",
        "The other aggregates of the host still count; nova takes the value of the option then.",
        _invalid_aggregate_multiplier,
    ),
    Explanation(
        "same_host and different_host may have uuids in capitals",
        "nova finds no such instance, and places the request on a host that the hint excludes.",
        _for_filter_verdicts(
            ("filter", "SameHostFilter"),
            ("filter", "DifferentHostFilter"),
            check=_uppercase_instance_uuid,
        ),
    ),
    Explanation(
        "the hosts that a request's group names count as hosts of members",
        "This holds even if no instance of the group is recorded there; nova looks only at "
        "recorded instances.",
        _for_filter_verdicts(
            ("filter", "ServerGroupAntiAffinityFilter"), check=_host_named_by_group
        ),
    ),
    Explanation(
        "an instance's image that cannot be read has no properties",
        "Such an image has a value that is no longer valid; nova fails on it, and with it every "
        "request that is weighed by images.",
        _for_filter_verdicts(("weigher", "ImagePropertiesWeigher"), check=_invalid_instance_image),
    ),
    Explanation(
        "one matching value of several aggregates suffices",
        "nova takes the values in no defined order, and fails if it first meets one that cannot "
        "be compared.",
        _for_filter_verdicts(
            ("filter", "AggregateInstanceExtraSpecsFilter"), check=_incomparable_aggregate_value
        ),
    ),
)


def explain_differences(both: HostAnswers, found: Differences) -> tuple[list[str], Differences]:
    return apply_explanations(EXPLANATIONS, both, found)
