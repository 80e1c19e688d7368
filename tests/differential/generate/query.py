# SPDX-License-Identifier: Apache-2.0
"""Random query strings: values of parameters and their spellings."""

from urllib.parse import quote

from tests.differential.generate.random_values import (
    AGGREGATE_UUIDS,
    PROVIDER_UUIDS,
    SHARING_TRAIT,
    TRAITS,
    RandomSource,
)

#: Mostly other traits than the required traits, which would contradict them.
FORBIDDEN_TRAITS = (TRAITS[0], TRAITS[1], TRAITS[1], SHARING_TRAIT)


def build_query_string(rng: RandomSource, pairs: list[tuple[str, str]]) -> str:
    pairs = list(pairs)
    if rng.chance(0.03) and pairs:
        pairs.append(rng.choice(pairs))
    if rng.chance(0.04) and pairs:
        pairs.insert(
            rng.choice([0, len(pairs)]),
            (rng.choice(pairs)[0], _random_value_for_repeated_key(rng, pairs)),
        )
    if rng.chance(0.02):
        pairs.append((rng.choice(["zork", "Resources", "limit", "name", "resources1"]), "1"))
    if not pairs:
        return rng.choice(["", "", "", "?"])
    safe = rng.choice([":,!", ":,!", ":,!", ""])
    return "?" + "&".join(f"{key}={quote(value, safe=safe)}" for key, value in pairs)


def _random_value_for_repeated_key(rng: RandomSource, pairs: list[tuple[str, str]]) -> str:
    return rng.choice(
        [
            rng.choice(pairs)[1],
            "1",
            "2",
            "0",
            "none",
            "isolate",
            "",
            "x",
            "VCPU:2",
            f" {PROVIDER_UUIDS[0]}",
        ]
    )


def random_resources_value(rng: RandomSource, classes: list[str] | None = None) -> str:
    if classes is None:
        classes = [rng.draw_resource_class() for _ in range(rng.choice([1, 1, 2, 3]))]
    if rng.chance(0.03):
        return rng.choice(
            ["", "VCPU", "VCPU:", "VCPU:0", "VCPU:-1", "VCPU:1:2", ":1", "VCPU:1,", ",", "VCPU:x",
             "VCPU:1,VCPU:2", "VCPU: 1", "VCPU:1.0", "VCPU:99999999999", "VCPU:1;DISK_GB:1",
             "VCPU:\u20031\u00a0"]
        )  # fmt: skip
    return ",".join(f"{name}:{rng.choice([1, 1, 1, 1, 1, 2, 2, 3, 4, 17])}" for name in classes)


def random_required_value(rng: RandomSource) -> str:
    if rng.chance(0.03):
        return rng.choice(
            ["", ",", "!", "in:", "in:,", "!in:HW_CPU_X86_AVX", "HW_CPU_X86_AVX,",
             "in:HW_CPU_X86_AVX,!CUSTOM_FAST", "!!CUSTOM_FAST", "!!", "hw_cpu_x86_avx",
             " CUSTOM_FAST", "CUSTOM_FAST,!CUSTOM_FAST", "CUSTOM_FAST,CUSTOM_FAST"]
        )  # fmt: skip
    names = [rng.draw_trait() for _ in range(rng.choice([1, 1, 1, 2]))]
    kind = rng.choice(["plain", "plain", "forbidden", "forbidden", "any", "any", "mixed"])
    if kind == "any":
        return "in:" + ",".join([*names, rng.draw_trait(), rng.draw_trait()])
    if kind == "forbidden":
        return f"!{rng.choice(FORBIDDEN_TRAITS)}"
    if kind == "mixed":
        return ",".join([*names, f"!{rng.choice(FORBIDDEN_TRAITS)}"])
    return ",".join(names)


def random_member_of_value(rng: RandomSource) -> str:
    uuid = rng.draw_uuid(AGGREGATE_UUIDS)
    if rng.chance(0.03):
        return rng.choice(
            ["", "in:", "!", "!in:", "in:,", f"in:{uuid},", f"in:!{uuid}", f"!!{uuid}", "x",
             f"{uuid},{AGGREGATE_UUIDS[0]}", f" {uuid}", f"!{uuid},{uuid}", f"in:in:{uuid}"]
        )  # fmt: skip
    several = ",".join([uuid, *rng.sample(AGGREGATE_UUIDS, 0, 2)])
    return rng.choice([uuid, uuid, f"in:{several}", f"in:{several}", f"!{uuid}", f"!in:{several}"])
