# SPDX-License-Identifier: Apache-2.0
"""Differences that are meant: each with what tells it, and why ours is better for users."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tests.differential.hosts.case import NOW, Case
from tests.differential.hosts.compare import Aspect, Differences
from tests.differential.hosts.sides import Answer

_EXTRA_SPEC = re.compile(r"refuses: extra spec '([^']+)': ")
_COMPARING_NUMBERS = {"=", "==", "!=", ">=", "<="}


@dataclass(frozen=True)
class HostAnswers:
    """A case and both answers."""

    case: Case
    ours: Answer
    theirs: Answer

    def reports(self, host: str) -> dict[str, Any]:
        return next(
            one["report"]
            for place, one in enumerate(self.case.hosts)
            if self.case.host_and_node_of(place) == host
        )

    def service(self, host: str) -> dict[str, Any]:
        return next(
            one["service"]
            for place, one in enumerate(self.case.hosts)
            if self.case.host_and_node_of(place) == host
        )

    def metadata(self, host: str, key: str) -> Iterator[str]:
        name = self.reports(host)["host"]
        for one in self.case.aggregates:
            if name in one["hosts"] and key in one["metadata"]:
                yield one["metadata"][key]

    @property
    def properties(self) -> Mapping[str, Any]:
        return self.case.request_spec["image"]["properties"]


#: Returns whether a difference is explained: what is of a host, ours and nova's.
Tells = Callable[[HostAnswers, str, Any, Any], bool]


@dataclass(frozen=True)
class Explanation:
    """``tells`` returns which of the aspects that differ are explained by it."""

    name: str
    reason: str
    tells: Callable[[HostAnswers, Differences], set[Aspect]]


def _for_filter_verdicts(
    *kinds: tuple[str, str], tell: Tells
) -> Callable[[HostAnswers, Differences], set[Aspect]]:
    def tells(seen: HostAnswers, found: Differences) -> set[Aspect]:
        return {
            aspect
            for aspect, (ours, theirs) in found.items()
            if aspect[:2] in kinds and tell(seen, aspect[2], ours, theirs)
        }

    return tells


def _is_failure(said: Any, *words: str) -> bool:
    return isinstance(said, str) and said.startswith(f"fails: {' '.join(words)}")


def _number_operator_on_text(seen: HostAnswers, host: str, ours: Any, theirs: Any) -> bool:
    named = _EXTRA_SPEC.match(ours) if isinstance(ours, str) else None
    if named is None or theirs is not False:
        return False
    first, *words = seen.case.request_spec["flavor"]["extra_specs"][named[1]].split()
    if first == "<or>":
        return not words
    return first in _COMPARING_NUMBERS and bool(words) and not _is_number(words[0])


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _unknown_host_in_hint(seen: HostAnswers, host: str, ours: Any, theirs: Any) -> bool:
    hosts = [host] if host else [seen.case.host_and_node_of(place) for place in seen.theirs.weighed]
    silent = any(seen.reports(one)["free_disk_gb"] is None for one in hosts)
    return silent and not isinstance(ours, str) and _is_failure(theirs, "TypeError:")


def _host_without_address(seen: HostAnswers, host: str, ours: Any, theirs: Any) -> bool:
    report = seen.reports(host)
    untold = report["host_ip"] is None or report["free_disk_gb"] is None
    return untold and ours is False and _is_failure(theirs, "TypeError:")


def _cidr_without_slash(seen: HostAnswers, host: str, ours: Any, theirs: Any) -> bool:
    length = seen.case.request_spec["scheduler_hints"].get("cidr", "/24")
    return not length.startswith("/") and isinstance(ours, bool) and theirs is not ours


def _address_bits_in_image(seen: HostAnswers, host: str, ours: Any, theirs: Any) -> bool:
    asked = "hw_maxphysaddr_bits" in seen.properties
    return asked and isinstance(ours, bool) and _is_failure(theirs, "AttributeError: 'str'")


def _values_compared_by_type(seen: HostAnswers, host: str, ours: Any, theirs: Any) -> bool:
    wanted = {seen.properties.get(name) for name in ("img_hv_type", "hw_vm_mode")} & {"xen", "uml"}
    supported = seen.reports(host)["supported_hv_specs"]
    return bool(wanted) and ours is False and theirs is True and any(
        wanted & {one[1], one[2]} and one[1] != one[2] for one in supported
    )  # fmt: skip


def _address_compared_as_text(seen: HostAnswers, host: str, ours: Any, theirs: Any) -> bool:
    asked = "$host_ip" in seen.case.request_spec["scheduler_hints"].get("query", "")
    return asked and isinstance(ours, bool) and (theirs is not ours)


def _dotted_path_in_service(seen: HostAnswers, host: str, ours: Any, theirs: Any) -> bool:
    keys = seen.case.request_spec["flavor"]["extra_specs"]
    asked = any(key.startswith("capabilities:service:") for key in keys)
    return asked and ours is not False and theirs is False


def _multiplier_of_several_aggregates(seen: HostAnswers, found: Differences) -> set[Aspect]:
    return {
        (kind, name, host)
        for (kind, name, host), (ours, _) in found.items()
        if kind == "multipliers"
        and _smallest_aggregate_multiplier(seen, host, _KEYS[name]) == abs(ours)
    }


def _smallest_aggregate_multiplier(seen: HostAnswers, host: str, key: str) -> float | None:
    said = [*seen.metadata(host, key)]
    numbers = [float(one) for one in said if _is_number(one)]
    return abs(min(numbers)) if numbers and len(numbers) < len(said) else None


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


def _property_spelled_otherwise(seen: HostAnswers, host: str, ours: Any, theirs: Any) -> bool:
    hints = seen.case.request_spec["scheduler_hints"]
    named = [hints.get(name, ()) for name in ("same_host", "different_host")]
    uuids = [uuid for one in named for uuid in ([one] if isinstance(one, str) else one)]
    here = {one["uuid"] for one in seen.case.instances if one["host"] == seen.reports(host)["host"]}
    found = any(uuid not in here and uuid.lower() in here for uuid in uuids)
    return found and isinstance(ours, bool) and theirs is (not ours)


def _spec_named_by_group(seen: HostAnswers, host: str, ours: Any, theirs: Any) -> bool:
    group = seen.case.request_spec.get("instance_group") or {"hosts": (), "members": ()}
    name = seen.reports(host)["host"]
    here = {one["uuid"] for one in seen.case.instances if one["host"] == name}
    named = name in group["hosts"] and not here & set(group["members"])
    return named and ours is False and theirs is True


def _image_limit_of_instance(seen: HostAnswers, host: str, ours: Any, theirs: Any) -> bool:
    return (
        not isinstance(ours, str) and _is_failure(theirs, "ValueError:") and "not valid" in theirs
    )


def _number_next_to_text(seen: HostAnswers, host: str, ours: Any, theirs: Any) -> bool:
    return ours is True and _is_failure(theirs, "ValueError: could not convert")


def _heartbeat_in_the_future(seen: HostAnswers, host: str, ours: Any, theirs: Any) -> bool:
    heard = seen.service(host)["last_seen_up"]
    return datetime.fromisoformat(heard) > NOW and ours is True and theirs is False


EXPLANATIONS = (
    Explanation(
        "a host whose clock is ahead is up",
        "A host is up while its last_seen_up is younger than service_down_time; nova takes a "
        "host whose clock is that far ahead for down.",
        _for_filter_verdicts(("filter", "ComputeFilter"), tell=_heartbeat_in_the_future),
    ),
    Explanation(
        "a comparison that cannot be made is 400",
        "This is an extra spec that compares a word as a number, or with nothing; the error "
        "names it. nova rejects hosts that have nothing to compare, and fails on the first host "
        "that has.",
        _for_filter_verdicts(
            ("filter", "AggregateInstanceExtraSpecsFilter"),
            ("filter", "ComputeCapabilitiesFilter"),
            tell=_number_operator_on_text,
        ),
    ),
    Explanation(
        "a host that reported no metrics or CPUs is evaluated",
        "nova fails on such a host, and with it every request.",
        _for_filter_verdicts(
            ("filter", "MetricsFilter"), ("weigher", "CPUWeigher"), tell=_unknown_host_in_hint
        ),
    ),
    Explanation(
        "a host without an address is near no address",
        "It is rejected for a request that asks for a host near an address; nova fails on it.",
        _for_filter_verdicts(("filter", "SimpleCIDRAffinityFilter"), tell=_host_without_address),
    ),
    Explanation(
        "the hint cidr needs no slash",
        "It may be 24 as well as /24; nova appends it to the address as it is.",
        _for_filter_verdicts(("filter", "SimpleCIDRAffinityFilter"), tell=_cidr_without_slash),
    ),
    Explanation(
        "hw_maxphysaddr_bits of an image is compared",
        "A host that reports fewer bits is rejected; nova fails on images with this property.",
        _for_filter_verdicts(("filter", "ImagePropertiesFilter"), tell=_address_bits_in_image),
    ),
    Explanation(
        "the VM mode xen needs a host with that mode",
        "nova also accepts a host whose hypervisor is xen.",
        _for_filter_verdicts(("filter", "ImagePropertiesFilter"), tell=_values_compared_by_type),
    ),
    Explanation(
        "$host_ip is compared as text",
        "A query may ask for it; in nova it is equal to nothing that a query can contain.",
        _for_filter_verdicts(("filter", "JsonFilter"), tell=_address_compared_as_text),
    ),
    Explanation(
        "capabilities:service: finds the service",
        "It leads to what is known of the host's compute service; nova finds nothing there.",
        _for_filter_verdicts(("filter", "ComputeCapabilitiesFilter"), tell=_dotted_path_in_service),
    ),
    Explanation(
        "an aggregate's multiplier that is not a number is ignored",
        "The other aggregates of the host still count; nova takes the value of the option then.",
        _multiplier_of_several_aggregates,
    ),
    Explanation(
        "same_host and different_host may have uuids in capitals",
        "nova finds no such instance, and places the request on a host that the hint excludes.",
        _for_filter_verdicts(
            ("filter", "SameHostFilter"),
            ("filter", "DifferentHostFilter"),
            tell=_property_spelled_otherwise,
        ),
    ),
    Explanation(
        "the hosts that a request's group names count as hosts of members",
        "This holds even if no instance of the group is recorded there; nova looks only at "
        "recorded instances.",
        _for_filter_verdicts(
            ("filter", "ServerGroupAntiAffinityFilter"), tell=_spec_named_by_group
        ),
    ),
    Explanation(
        "an instance's image that cannot be read has no properties",
        "Such an image has a value that is no longer valid; nova fails on it, and with it every "
        "request that is weighed by images.",
        _for_filter_verdicts(("weigher", "ImagePropertiesWeigher"), tell=_image_limit_of_instance),
    ),
    Explanation(
        "one matching value of several aggregates suffices",
        "nova takes the values in no defined order, and fails if it first meets one that cannot "
        "be compared.",
        _for_filter_verdicts(
            ("filter", "AggregateInstanceExtraSpecsFilter"), tell=_number_next_to_text
        ),
    ),
)


def explain_differences(seen: HostAnswers, found: Differences) -> tuple[list[str], Differences]:
    names, left = [], dict(found)
    for explanation in EXPLANATIONS:
        claimed = explanation.tells(seen, left) & left.keys() if left else set()
        if claimed:
            names.append(explanation.name)
            left = {aspect: values for aspect, values in left.items() if aspect not in claimed}
    return names, left
