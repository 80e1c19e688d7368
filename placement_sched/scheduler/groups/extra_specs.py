"""``resources<suffix>:``, ``trait<suffix>:`` and ``group_policy`` of a flavor."""

import re

from placement_sched.errors import Invalid
from placement_sched.model.flavor import Flavor
from placement_sched.model.inventory import MAX_INT
from placement_sched.scheduler.groups.gathering import Group, Groups
from placement_sched.scheduler.groups.symbols import checked_name

_KEY = re.compile(
    "(?P<prefix>resources|trait)(?P<suffix>[a-zA-Z0-9_-]{1,64})?:(?P<name>.*)", re.DOTALL
)
_AMOUNT = re.compile(r"[0-9]{1,10}")
_POLICIES = ("none", "isolate")


def add_extra_specs(groups: Groups, flavor: Flavor) -> None:
    """Add what a flavor asks of placement in so many words.

    Raises :class:`Invalid` naming an extra spec that cannot be.
    """
    for key, value in flavor.extra_specs.items():
        source = f"flavor extra spec {key!r}"
        if key == "group_policy":
            groups.policy = _policy(source, value)
        elif match := _KEY.fullmatch(key):
            group = groups[match["suffix"] or ""]
            name = checked_name(source, match["name"])
            if match["prefix"] == "resources":
                group.ask(name, _amount(source, value), source)
            else:
                _add_trait(group, name, value, source)


def _policy(source: str, value: str) -> str:
    if value not in _POLICIES:
        raise Invalid(f"{source}: expected {' or '.join(_POLICIES)}, got {value!r}")
    return value


def _amount(source: str, value: str) -> int:
    if not _AMOUNT.fullmatch(value):
        raise Invalid(f"{source}: expected an amount from 0 to 9999999999, got {value!r}")
    return min(int(value), MAX_INT + 1)


def _add_trait(group: Group, name: str, value: str, source: str) -> None:
    if value == "required":
        group.require(name, source)
    elif value == "forbidden":
        group.forbid(name, source)
    else:
        raise Invalid(f"{source}: expected required or forbidden, got {value!r}")
