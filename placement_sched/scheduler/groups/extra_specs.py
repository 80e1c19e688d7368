"""``resources<suffix>:``, ``trait<suffix>:`` and ``group_policy`` of a flavor."""

import re

import os_resource_classes

from placement_sched.model.flavor import Flavor
from placement_sched.model.ignored import FLAVOR
from placement_sched.model.inventory import MAX_INT
from placement_sched.scheduler.groups.gathering import Groups
from placement_sched.scheduler.groups.symbols import checked_name

#: A line feed at the end of a key is no part of the name, as for nova; elsewhere it ends the match.
_KEY = re.compile("(?P<prefix>resources|trait)(?P<suffix>[a-zA-Z0-9_-]{1,64})?:(?P<name>.*)\n?")
_CUSTOM = os_resource_classes.CUSTOM_NAMESPACE
_CLASSES = frozenset(os_resource_classes.STANDARDS)
_POLICIES = ("none", "isolate")

_A_CLASS = f"a standard resource class, or a name that begins with {_CUSTOM}"
_AN_AMOUNT = "a whole number that is not negative"
_A_TRAIT = "the name of a trait after the colon"
_A_WORD = "required or forbidden"


def add_extra_specs(groups: Groups, flavor: Flavor) -> None:
    """Add what a flavor asks of placement in so many words.

    What nova logs and ignores is ignored here too, and noted: nova's API did not always look at
    extra specs, and an instance of such a flavor has to find another host one day. Raises
    :class:`~placement_sched.errors.Invalid` naming an extra spec that nova passes on to placement
    and placement cannot take.
    """
    for key, value in flavor.extra_specs.items():
        if key == "group_policy":
            expected = _add_policy(groups, value)
        elif match := _KEY.fullmatch(key):
            add = _add_amount if match["prefix"] == "resources" else _add_trait
            expected = add(groups, key, match["suffix"] or "", match["name"], value)
        else:
            continue
        if expected:
            groups.ignore(FLAVOR, key, value, expected)


# Each of these returns what was expected where it ignores what was said. The group of what is
# ignored is there all the same while the flavor's groups are counted, as in nova, and is left out
# before placement is asked where nothing else is asked of it.


def _add_policy(groups: Groups, value: str) -> str | None:
    if value not in _POLICIES:
        return " or ".join(_POLICIES)
    groups.policy = value
    return None


def _add_amount(groups: Groups, key: str, suffix: str, name: str, value: str) -> str | None:
    group = groups[suffix]
    if name not in _CLASSES and not name.startswith(_CUSTOM):
        return _A_CLASS
    try:
        amount = int(value)  # blanks at the ends and a sign are taken, as by nova
    except ValueError:
        return _AN_AMOUNT
    if amount < 0:
        return _AN_AMOUNT
    source = _source(key)
    group.ask(checked_name(source, name), min(amount, MAX_INT + 1), source)
    return None


def _add_trait(groups: Groups, key: str, suffix: str, name: str, value: str) -> str | None:
    group = groups[suffix]
    if value not in {"required", "forbidden"}:
        return _A_WORD
    if not name:
        return _A_TRAIT
    source = _source(key)
    add = group.require if value == "required" else group.forbid
    add(checked_name(source, name), source)
    return None


def _source(key: str) -> str:
    return f"flavor extra spec {key!r}"
