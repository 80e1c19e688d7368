# SPDX-License-Identifier: Apache-2.0
"""Requests for allocation candidates, with every parameter."""

from tests.differential.exchange import Request
from tests.differential.generate.dice import CLASSES, PROVIDERS, Dice
from tests.differential.generate.query import (
    build_query_string,
    random_member_of,
    random_required,
    random_resources,
)

_LIMITS = ("1", "2", "3", "5", "1000")
#: Suffixes that all versions, or only older versions, reject.
_ODD_NAMES = (
    ["_" + "X" * 63, "_" + "X" * 64, "1"],
    ["0", "01", "1"],
    ["A", "_", "-1"],
    ["_Ü", "1.5", "1 "],
)
#: White space and similar characters.
BLANKS = ("", " ", "\t", "\u00a0", "\u2003", "\u200b")
_SINCE = (10, 12, 16, 17, 21, 22, 24, 25, 29, 31, 32, 33, 34, 35, 36, 38, 39)


def candidates_request(dice: Dice) -> Request:
    version, pairs = _random_query(dice)
    return Request("GET", "/allocation_candidates" + build_query_string(dice, pairs), version)


def unlimited_candidates_request(dice: Dice) -> Request:
    version, pairs = _random_query(dice)
    pairs = [(key, value) for key, value in pairs if key != "limit"]
    return Request("GET", "/allocation_candidates" + build_query_string(dice, pairs), version)


def _random_query(dice: Dice) -> tuple[str | None, list[tuple[str, str]]]:
    version = dice.version(dice.choice(_SINCE))
    minor = 39 if version == "latest" else int((version or "1.0")[2:])
    if dice.chance(0.04):
        minor = 39  # with parameters of later versions
    pairs = (
        _random_granular_groups(dice, minor)
        if minor >= 25 and dice.chance(0.6)
        else _random_group_without_suffix(dice, minor)
    )
    if dice.chance(0.03):
        pairs = [(key, value) for key, value in pairs if not key.startswith("resources")]
    dice.random.shuffle(pairs)
    return version, pairs


def _random_group_without_suffix(dice: Dice, minor: int) -> list[tuple[str, str]]:
    classes = dice.sample(CLASSES[:4], 1, dice.choice([1, 1, 2, 3]))
    if dice.chance(0.04):
        classes = [dice.resource_class()]
    return [
        ("resources", random_resources(dice, classes)),
        *_random_trait_and_aggregate_terms(dice, minor, ""),
        *_random_query_wide_terms(dice, minor),
    ]


def _random_trait_and_aggregate_terms(dice: Dice, minor: int, suffix: str) -> list[tuple[str, str]]:
    pairs = []
    if minor >= 17:
        pairs += [
            (f"required{suffix}", _random_required_for_version(dice, minor))
            for _ in _random_repetitions(dice, minor, 39)
        ]
    if minor >= 21:
        pairs += [
            (f"member_of{suffix}", _random_member_of_for_version(dice, minor))
            for _ in _random_repetitions(dice, minor, 24)
        ]
    if minor >= 31 and dice.chance(0.1):
        blank = dice.choice(BLANKS) if dice.chance(0.1) else ""
        pairs.append((f"in_tree{suffix}", f"{blank}{dice.uuid(PROVIDERS)}"))
    return pairs


def _random_repetitions(dice: Dice, minor: int, repeated: int) -> range:
    return range(dice.choice([0, 0, 0, 0, 0, 1, 1, 2 if minor >= repeated else 1]))


def _random_required_for_version(dice: Dice, minor: int) -> str:
    value = random_required(dice)
    while (minor < 22 and "!" in value) or (minor < 39 and value.startswith("in:")):
        if dice.chance(0.05):
            break
        value = random_required(dice)
    return value


def _random_member_of_for_version(dice: Dice, minor: int) -> str:
    value = random_member_of(dice)
    while minor < 32 and "!" in value and dice.chance(0.95):
        value = random_member_of(dice)
    return value


def _random_query_wide_terms(dice: Dice, minor: int) -> list[tuple[str, str]]:
    pairs = []
    if minor >= 16 and dice.chance(0.1):
        limits = _LIMITS if dice.chance(0.9) else ["0", "-1", "x", "", "01"]
        pairs.append(("limit", dice.choice(limits)))
    if minor >= 35 and dice.chance(0.1):
        pairs.append(("root_required", _random_required_for_version(dice, minor)))
    if minor >= 25 and dice.chance(0.03):
        pairs.append(("group_policy", dice.choice(["none", "isolate", "x"])))
    return pairs


def _random_granular_groups(dice: Dice, minor: int) -> list[tuple[str, str]]:
    numbered = ["1", "2", "3"]
    named = ["_A", "_B-c", "1"]
    names = named if minor >= 33 and dice.chance(0.7) else numbered
    if dice.chance(0.02):
        names = dice.choice(_ODD_NAMES)
    suffixes = names[: dice.choice([1, 2, 2, 3])]
    pairs = []
    if dice.chance(0.5):
        pairs.append(("resources", random_resources(dice, dice.sample(CLASSES[:4], 1, 2))))
        if dice.chance(0.4):
            pairs += _random_trait_and_aggregate_terms(dice, minor, "")
    for suffix in suffixes:
        resourceless = minor >= 36 and dice.chance(0.15)
        if not resourceless:
            classes = dice.sample(CLASSES[:4], 1, dice.choice([1, 1, 2]))
            pairs.append((f"resources{suffix}", random_resources(dice, classes)))
        if resourceless or dice.chance(0.4):
            pairs += _random_trait_and_aggregate_terms(dice, minor, suffix)
        if resourceless and dice.chance(0.7):
            pairs.append((f"required{suffix}", _random_required_for_version(dice, minor)))
    if len(suffixes) > 1 and dice.chance(0.97):
        policy = "x" if dice.chance(0.03) else dice.choice(["none", "isolate"])
        pairs.append(("group_policy", policy))
    if minor >= 36:
        ties = dice.choice([0, 0, 0, 1, 1, 2])
        between = f"{dice.choice(BLANKS)},{dice.choice(BLANKS)}" if dice.chance(0.1) else ","
        pairs += [
            ("same_subtree", between.join(_random_suffixes(dice, suffixes))) for _ in range(ties)
        ]
    return pairs + [
        pair for pair in _random_query_wide_terms(dice, minor) if pair[0] != "group_policy"
    ]


def _random_suffixes(dice: Dice, suffixes: list[str]) -> list[str]:
    if dice.chance(0.04):
        return dice.choice([[""], [*suffixes, ""], ["_NOPE"], [*suffixes, "_NOPE"], suffixes * 2])
    return suffixes if dice.chance(0.7) else dice.sample(suffixes, 1)
