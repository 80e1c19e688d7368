# SPDX-License-Identifier: Apache-2.0
"""Template filters for amounts, resource classes, stages and times."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from markupsafe import Markup

from placement_sched.explain.phrases import with_names
from placement_sched.model.amounts import format_amount, format_class
from placement_sched.model.clock import format_duration, utcnow
from placement_sched.model.provider import FULL, NEARLY_FULL


def format_used(used: int, capacity: int, resource_class: str) -> str:
    """Format a used amount and the capacity, such as ``104 of 248 GiB``."""
    total = format_amount(capacity, resource_class)
    amount = format_amount(used, resource_class) if used else "0"
    unit = total.partition(" ")[2]
    return f"{amount.removesuffix(f' {unit}')} of {total}"


def format_share(used: float, capacity: float) -> int:
    """Return the used share in percent, at most 99 while anything remains."""
    if not capacity:
        return 100 if used else 0
    percent = round(100 * used / capacity)
    return min(percent, 99) if used < capacity else percent


def choose_fullness_class(percent: float) -> str:
    """Return the CSS class of the colour for a used share in percent."""
    if percent >= FULL:
        return "full-red"
    return (
        "full-amber" if percent >= NEARLY_FULL else f"full{min(int(percent * 5 / NEARLY_FULL), 4)}"
    )


def format_time(text: str | None, *, seconds: bool = True) -> str | Markup:
    """Format a UTC time, such as ``27 Nov 14:03:12`` in this year."""
    if text is None:
        return "never"
    moment = _parse(text)
    clock = f"{moment:%H:%M:%S}" if seconds else f"{moment:%H:%M}"
    year = "" if moment.year == utcnow().year else f" {moment.year}"
    return _build_element(moment, f"{moment.day} {moment:%b}{year} {clock}")


def format_age(text: str | None) -> str | Markup:
    """Format the age of a UTC time, such as ``30 days ago``."""
    if text is None:
        return "never"
    moment = _parse(text)
    seconds = (utcnow() - moment).total_seconds()
    return _build_element(moment, f"{format_duration(max(seconds, 0))} ago")


def _parse(text: str) -> datetime:
    return datetime.fromisoformat(text.removesuffix("Z")).replace(tzinfo=None, microsecond=0)


def _build_element(moment: datetime, words: str) -> Markup:
    title = f"{moment:%Y-%m-%d %H:%M:%S} UTC"
    return Markup('<time datetime="{}Z" title="{}">{}</time>').format(
        moment.isoformat(), title, words
    )


#: Descriptions of the hosts that nova's host filters reject.
_FILTER_WORDS = {
    "AggregateImagePropertiesIsolation": "aggregate is for other images",
    "AggregateInstanceExtraSpecsFilter": "aggregate lacks the extra specs",
    "AggregateMultiTenancyIsolation": "aggregate is for other projects",
    "AggregateTypeAffinityFilter": "aggregate is for other flavors",
    "ComputeCapabilitiesFilter": "capabilities differ from the extra specs",
    "ComputeFilter": "down or disabled",
    "DifferentHostFilter": "has an instance to stay away from",
    "ImagePropertiesFilter": "cannot run the image",
    "IoOpsFilter": "too many instances with heavy I/O",
    "IsolatedHostsFilter": "isolated for other images",
    "JsonFilter": "the query hint excludes it",
    "MetricsFilter": "lacks a metric that is weighed",
    "NumInstancesFilter": "too many instances",
    "NUMATopologyFilter": "NUMA topology does not fit",
    "PciPassthroughFilter": "no such PCI device is free",
    "RetryFilter": "tried before",
    "SameHostFilter": "lacks the instance to be with",
    "ServerGroupAffinityFilter": "the server group is on another host",
    "ServerGroupAntiAffinityFilter": "has an instance of the server group",
    "SimpleCIDRAffinityFilter": "outside the network of the hint",
    "TrustedFilter": "is not trusted",
    "TypeAffinityFilter": "has instances of other flavors",
}
#: Words for the steps of the candidate search, by patterns of their names.
_STAGE_WORDS: Sequence[tuple[str, str | Callable[[re.Match[str]], str]]] = (
    (r"root_required !COMPUTE_STATUS_DISABLED", "disabled"),
    (r"root_required !([^ ,]+)", r"has \1"),
    (r"(?:root_)?required ([^ ,!]+)", r"no \1"),
    (r"member_of !in:([^ ]+)", r"reserved for other requests (\1)"),
    (r"member_of in:([^ ]+)", r"not in \1"),
    (r"map_az_to_placement_aggregate", "no such zone"),
    (r"room_left", "used up by the same request"),
    (r"resources([^ ]*) ([A-Z0-9_]+):(\d+)", lambda match: _describe_shortage(match[2], match[3])),
    (r"resources MEMORY_MB", "not enough memory"),
    (r"resources DISK_GB", "not enough disk"),
    (r"resources ([A-Z0-9_]+)", r"not enough \1"),
)


def _describe_shortage(resource_class: str, amount: str) -> str:
    noun = format_class(resource_class)
    noun = noun if noun == resource_class else noun.lower()
    return f"not enough {noun} for {format_amount(int(amount), resource_class)}"


def format_stage(name: str) -> str:
    """Describe a stage in an operator's words, such as ``not enough memory``."""
    for pattern, words in _STAGE_WORDS:
        name = re.sub(pattern, words, name)
    return name


def describe_stage(name: str) -> str:
    """Return words for the rejections of a stage, empty if there are none."""
    words = _FILTER_WORDS.get(name) or format_stage(name)
    return "" if words == name else words.replace(",", ", ").replace(",  ", ", ")


def format_stop(stop: Mapping[str, Any]) -> str:
    """Describe an entry of ``limited_by`` of a capacity in words."""
    reason, detail = stop["reason"], stop.get("detail") or ""
    if not detail and re.fullmatch(r"[A-Z][A-Z0-9_]*", reason):
        reason = f"resources {reason}"
    name = f"{reason} {with_names(detail, stop.get('names', {}))}".strip()
    return describe_stage(name) or name


#: The template filters by name.
FILTERS: Mapping[str, Callable[..., Any]] = {
    "class_name": format_class,
    "amount": format_amount,
    "fullness": choose_fullness_class,
    "stage_words": format_stage,
    "stop_words": format_stop,
    "time": format_time,
    "age": format_age,
}
