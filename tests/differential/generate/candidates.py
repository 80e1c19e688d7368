# SPDX-License-Identifier: Apache-2.0
"""Requests for allocation candidates, with every parameter."""

from tests.differential.exchange import Request
from tests.differential.generate.query import (
    build_query_string,
    random_member_of_value,
    random_required_value,
    random_resources_value,
)
from tests.differential.generate.random_values import PROVIDER_UUIDS, RESOURCE_CLASSES, RandomSource

_LIMIT_VALUES = ("1", "2", "3", "5", "1000")
#: Suffixes that all versions, or only older versions, reject.
_UNUSUAL_GROUP_SUFFIXES = (
    ["_" + "X" * 63, "_" + "X" * 64, "1"],
    ["0", "01", "1"],
    ["A", "_", "-1"],
    ["_Ü", "1.5", "1 "],
)
#: White space and similar characters.
WHITE_SPACE_CHARACTERS = ("", " ", "\t", "\u00a0", "\u2003", "\u200b")
_MICROVERSIONS_WITH_CHANGES = (10, 12, 16, 17, 21, 22, 24, 25, 29, 31, 32, 33, 34, 35, 36, 38, 39)


def random_candidates_request(rng: RandomSource) -> Request:
    version, pairs = _random_query(rng)
    return Request("GET", "/allocation_candidates" + build_query_string(rng, pairs), version)


def random_candidates_request_without_limit(rng: RandomSource) -> Request:
    version, pairs = _random_query(rng)
    pairs = [(key, value) for key, value in pairs if key != "limit"]
    return Request("GET", "/allocation_candidates" + build_query_string(rng, pairs), version)


def _random_query(rng: RandomSource) -> tuple[str | None, list[tuple[str, str]]]:
    version = rng.draw_version(rng.choice(_MICROVERSIONS_WITH_CHANGES))
    minor = 39 if version == "latest" else int((version or "1.0")[2:])
    if rng.chance(0.04):
        minor = 39  # with parameters of later versions
    pairs = (
        _random_granular_groups(rng, minor)
        if minor >= 25 and rng.chance(0.6)
        else _random_group_without_suffix(rng, minor)
    )
    if rng.chance(0.03):
        pairs = [(key, value) for key, value in pairs if not key.startswith("resources")]
    rng.random.shuffle(pairs)
    return version, pairs


def _random_group_without_suffix(rng: RandomSource, minor: int) -> list[tuple[str, str]]:
    classes = rng.sample(RESOURCE_CLASSES[:4], 1, rng.choice([1, 1, 2, 3]))
    if rng.chance(0.04):
        classes = [rng.draw_resource_class()]
    return [
        ("resources", random_resources_value(rng, classes)),
        *_random_trait_and_aggregate_terms(rng, minor, ""),
        *_random_query_wide_terms(rng, minor),
    ]


def _random_trait_and_aggregate_terms(
    rng: RandomSource, minor: int, suffix: str
) -> list[tuple[str, str]]:
    pairs = []
    if minor >= 17:
        pairs += [
            (f"required{suffix}", _random_required_for_version(rng, minor))
            for _ in _random_repetitions(rng, minor, 39)
        ]
    if minor >= 21:
        pairs += [
            (f"member_of{suffix}", _random_member_of_for_version(rng, minor))
            for _ in _random_repetitions(rng, minor, 24)
        ]
    if minor >= 31 and rng.chance(0.1):
        blank = rng.choice(WHITE_SPACE_CHARACTERS) if rng.chance(0.1) else ""
        pairs.append((f"in_tree{suffix}", f"{blank}{rng.draw_uuid(PROVIDER_UUIDS)}"))
    return pairs


def _random_repetitions(rng: RandomSource, minor: int, repeated: int) -> range:
    return range(rng.choice([0, 0, 0, 0, 0, 1, 1, 2 if minor >= repeated else 1]))


def _random_required_for_version(rng: RandomSource, minor: int) -> str:
    value = random_required_value(rng)
    while (minor < 22 and "!" in value) or (minor < 39 and value.startswith("in:")):
        if rng.chance(0.05):
            break
        value = random_required_value(rng)
    return value


def _random_member_of_for_version(rng: RandomSource, minor: int) -> str:
    value = random_member_of_value(rng)
    while minor < 32 and "!" in value and rng.chance(0.95):
        value = random_member_of_value(rng)
    return value


def _random_query_wide_terms(rng: RandomSource, minor: int) -> list[tuple[str, str]]:
    pairs = []
    if minor >= 16 and rng.chance(0.1):
        limits = _LIMIT_VALUES if rng.chance(0.9) else ["0", "-1", "x", "", "01"]
        pairs.append(("limit", rng.choice(limits)))
    if minor >= 35 and rng.chance(0.1):
        pairs.append(("root_required", _random_required_for_version(rng, minor)))
    if minor >= 25 and rng.chance(0.03):
        pairs.append(("group_policy", rng.choice(["none", "isolate", "x"])))
    return pairs


def _random_granular_groups(rng: RandomSource, minor: int) -> list[tuple[str, str]]:
    numbered = ["1", "2", "3"]
    named = ["_A", "_B-c", "1"]
    names = named if minor >= 33 and rng.chance(0.7) else numbered
    if rng.chance(0.02):
        names = rng.choice(_UNUSUAL_GROUP_SUFFIXES)
    suffixes = names[: rng.choice([1, 2, 2, 3])]
    pairs = []
    if rng.chance(0.5):
        pairs.append(
            ("resources", random_resources_value(rng, rng.sample(RESOURCE_CLASSES[:4], 1, 2)))
        )
        if rng.chance(0.4):
            pairs += _random_trait_and_aggregate_terms(rng, minor, "")
    for suffix in suffixes:
        resourceless = minor >= 36 and rng.chance(0.15)
        if not resourceless:
            classes = rng.sample(RESOURCE_CLASSES[:4], 1, rng.choice([1, 1, 2]))
            pairs.append((f"resources{suffix}", random_resources_value(rng, classes)))
        if resourceless or rng.chance(0.4):
            pairs += _random_trait_and_aggregate_terms(rng, minor, suffix)
        if resourceless and rng.chance(0.7):
            pairs.append((f"required{suffix}", _random_required_for_version(rng, minor)))
    if len(suffixes) > 1 and rng.chance(0.97):
        policy = "x" if rng.chance(0.03) else rng.choice(["none", "isolate"])
        pairs.append(("group_policy", policy))
    if minor >= 36:
        ties = rng.choice([0, 0, 0, 1, 1, 2])
        between = (
            f"{rng.choice(WHITE_SPACE_CHARACTERS)},{rng.choice(WHITE_SPACE_CHARACTERS)}"
            if rng.chance(0.1)
            else ","
        )
        pairs += [
            ("same_subtree", between.join(_random_suffixes(rng, suffixes))) for _ in range(ties)
        ]
    return pairs + [
        pair for pair in _random_query_wide_terms(rng, minor) if pair[0] != "group_policy"
    ]


def _random_suffixes(rng: RandomSource, suffixes: list[str]) -> list[str]:
    if rng.chance(0.04):
        return rng.choice([[""], [*suffixes, ""], ["_NOPE"], [*suffixes, "_NOPE"], suffixes * 2])
    return suffixes if rng.chance(0.7) else rng.sample(suffixes, 1)
