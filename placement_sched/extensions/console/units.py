# SPDX-License-Identifier: Apache-2.0
"""Template filters for amounts, resource classes, stages and times."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import flask
from markupsafe import Markup

from placement_sched.explain.amounts import format_amount, format_class, format_number
from placement_sched.explain.reader import describe_limit_reason, format_value
from placement_sched.model.clock import format_duration, utcnow
from placement_sched.model.provider import FULL, NEARLY_FULL


def format_used(used: int, capacity: int, resource_class: str) -> str:
    """Format a used amount and the capacity, such as ``104 of 248 GiB``."""
    amount, unit = format_number(used, resource_class)
    is_same = unit == format_number(capacity, resource_class)[1]
    amount = amount if is_same or not used else f"{amount} {unit}"
    return f"{amount} of {format_amount(capacity, resource_class)}"


def format_share(used: float, capacity: float) -> int:
    """Return the used share in percent, at most 99 while anything remains."""
    if not capacity:
        return 100 if used else 0
    percent = round(100 * used / capacity)
    return min(percent, 99) if used < capacity else percent


def format_percent(used: float, capacity: float) -> str:
    """Format the used share, as ``<1 %`` if anything is used."""
    percent = format_share(used, capacity)
    return f"{'<1' if used and not percent else percent} %"


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
    """Format the age of a UTC time, such as ``30 days ago``.

    If the service shows a fleet file, the age is that at the time of the file.
    """
    if text is None:
        return "never"
    moment = _parse(text)
    seconds = ((flask.g.get("shown_at") or utcnow()) - moment).total_seconds()
    return _build_element(moment, f"{format_duration(max(seconds, 0))} ago")


def _parse(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=None, microsecond=0)


def _build_element(moment: datetime, words: str) -> Markup:
    title = f"{moment:%Y-%m-%d %H:%M:%S} UTC"
    return Markup('<time datetime="{}Z" title="{}">{}</time>').format(
        moment.isoformat(), title, words
    )


def format_sizes(flavor: Mapping[str, Any]) -> str:
    """Format the sizes of a stored flavor, as ``2 VCPUs, 4 GiB, 40 GiB disk``."""
    vcpus = f"{flavor['vcpus']:,} {'VCPU' if flavor['vcpus'] == 1 else 'VCPUs'}"
    memory = format_amount(flavor["ram"], "MEMORY_MB")
    return f"{vcpus}, {memory}, {format_amount(flavor['disk'], 'DISK_GB')} disk"


#: The template filters by name.
FILTERS: Mapping[str, Callable[..., Any]] = {
    "class_name": format_class,
    "amount": format_amount,
    "fullness": choose_fullness_class,
    "stop_words": describe_limit_reason,
    "time": format_time,
    "age": format_age,
    "sizes": format_sizes,
    "words": format_value,
}
