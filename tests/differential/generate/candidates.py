# SPDX-License-Identifier: Apache-2.0
"""Requests for allocation candidates, with every parameter."""

from tests.differential.exchange import Request
from tests.differential.generate.dice import CLASSES, PROVIDERS, Dice
from tests.differential.generate.query import member_of, query_string, required, resources

_LIMITS = ("1", "2", "3", "5", "1000")
#: Suffixes that no version takes, or only the later ones.
_ODD_NAMES = (
    ["_" + "X" * 63, "_" + "X" * 64, "1"],
    ["0", "01", "1"],
    ["A", "_", "-1"],
    ["_Ü", "1.5", "1 "],
)
#: White space, or what looks like it.
BLANKS = ("", " ", "\t", "\u00a0", "\u2003", "\u200b")
_SINCE = (10, 12, 16, 17, 21, 22, 24, 25, 29, 31, 32, 33, 34, 35, 36, 38, 39)


def candidates(dice: Dice) -> Request:
    version, pairs = _asked(dice)
    return Request("GET", "/allocation_candidates" + query_string(dice, pairs), version)


def unlimited(dice: Dice) -> Request:
    version, pairs = _asked(dice)
    pairs = [(key, value) for key, value in pairs if key != "limit"]
    return Request("GET", "/allocation_candidates" + query_string(dice, pairs), version)


def _asked(dice: Dice) -> tuple[str | None, list[tuple[str, str]]]:
    version = dice.version(dice.one(_SINCE))
    minor = 39 if version == "latest" else int((version or "1.0")[2:])
    if dice.chance(0.04):
        minor = 39  # with what its version does not know
    pairs = _granular(dice, minor) if minor >= 25 and dice.chance(0.6) else _flat(dice, minor)
    if dice.chance(0.03):
        pairs = [(key, value) for key, value in pairs if not key.startswith("resources")]
    dice.random.shuffle(pairs)
    return version, pairs


def _flat(dice: Dice, minor: int) -> list[tuple[str, str]]:
    classes = dice.some(CLASSES[:4], 1, dice.one([1, 1, 2, 3]))
    if dice.chance(0.04):
        classes = [dice.resource_class()]
    return [("resources", resources(dice, classes)), *_terms(dice, minor, ""), *_whole(dice, minor)]


def _terms(dice: Dice, minor: int, suffix: str) -> list[tuple[str, str]]:
    pairs = []
    if minor >= 17:
        pairs += [(f"required{suffix}", _required(dice, minor)) for _ in _times(dice, minor, 39)]
    if minor >= 21:
        pairs += [(f"member_of{suffix}", _member_of(dice, minor)) for _ in _times(dice, minor, 24)]
    if minor >= 31 and dice.chance(0.1):
        blank = dice.one(BLANKS) if dice.chance(0.1) else ""
        pairs.append((f"in_tree{suffix}", f"{blank}{dice.uuid(PROVIDERS)}"))
    return pairs


def _times(dice: Dice, minor: int, repeated: int) -> range:
    return range(dice.one([0, 0, 0, 0, 0, 1, 1, 2 if minor >= repeated else 1]))


def _required(dice: Dice, minor: int) -> str:
    value = required(dice)
    while (minor < 22 and "!" in value) or (minor < 39 and value.startswith("in:")):
        if dice.chance(0.05):
            break
        value = required(dice)
    return value


def _member_of(dice: Dice, minor: int) -> str:
    value = member_of(dice)
    while minor < 32 and "!" in value and dice.chance(0.95):
        value = member_of(dice)
    return value


def _whole(dice: Dice, minor: int) -> list[tuple[str, str]]:
    pairs = []
    if minor >= 16 and dice.chance(0.1):
        limits = _LIMITS if dice.chance(0.9) else ["0", "-1", "x", "", "01"]
        pairs.append(("limit", dice.one(limits)))
    if minor >= 35 and dice.chance(0.1):
        pairs.append(("root_required", _required(dice, minor)))
    if minor >= 25 and dice.chance(0.03):
        pairs.append(("group_policy", dice.one(["none", "isolate", "x"])))
    return pairs


def _granular(dice: Dice, minor: int) -> list[tuple[str, str]]:
    numbered = ["1", "2", "3"]
    named = ["_A", "_B-c", "1"]
    names = named if minor >= 33 and dice.chance(0.7) else numbered
    if dice.chance(0.02):
        names = dice.one(_ODD_NAMES)
    suffixes = names[: dice.one([1, 2, 2, 3])]
    pairs = []
    if dice.chance(0.5):
        pairs.append(("resources", resources(dice, dice.some(CLASSES[:4], 1, 2))))
        if dice.chance(0.4):
            pairs += _terms(dice, minor, "")
    for suffix in suffixes:
        resourceless = minor >= 36 and dice.chance(0.15)
        if not resourceless:
            classes = dice.some(CLASSES[:4], 1, dice.one([1, 1, 2]))
            pairs.append((f"resources{suffix}", resources(dice, classes)))
        if resourceless or dice.chance(0.4):
            pairs += _terms(dice, minor, suffix)
        if resourceless and dice.chance(0.7):
            pairs.append((f"required{suffix}", _required(dice, minor)))
    if len(suffixes) > 1 and dice.chance(0.97):
        policy = "x" if dice.chance(0.03) else dice.one(["none", "isolate"])
        pairs.append(("group_policy", policy))
    if minor >= 36:
        ties = dice.one([0, 0, 0, 1, 1, 2])
        between = f"{dice.one(BLANKS)},{dice.one(BLANKS)}" if dice.chance(0.1) else ","
        pairs += [("same_subtree", between.join(_tied(dice, suffixes))) for _ in range(ties)]
    return pairs + [pair for pair in _whole(dice, minor) if pair[0] != "group_policy"]


def _tied(dice: Dice, suffixes: list[str]) -> list[str]:
    if dice.chance(0.04):
        return dice.one([[""], [*suffixes, ""], ["_NOPE"], [*suffixes, "_NOPE"], suffixes * 2])
    return suffixes if dice.chance(0.7) else dice.some(suffixes, 1)
