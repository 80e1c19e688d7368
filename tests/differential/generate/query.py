# SPDX-License-Identifier: Apache-2.0
"""Random query strings: values of parameters and their spellings."""

from urllib.parse import quote

from tests.differential.generate.dice import AGGREGATES, PROVIDERS, SHARES, TRAITS, Dice

#: Mostly other traits than the required traits, which would contradict them.
FORBIDDEN = (TRAITS[0], TRAITS[1], TRAITS[1], SHARES)


def build_query_string(dice: Dice, pairs: list[tuple[str, str]]) -> str:
    pairs = list(pairs)
    if dice.chance(0.03) and pairs:
        pairs.append(dice.choice(pairs))
    if dice.chance(0.04) and pairs:
        pairs.insert(
            dice.choice([0, len(pairs)]),
            (dice.choice(pairs)[0], _random_value_for_repeated_key(dice, pairs)),
        )
    if dice.chance(0.02):
        pairs.append((dice.choice(["zork", "Resources", "limit", "name", "resources1"]), "1"))
    if not pairs:
        return dice.choice(["", "", "", "?"])
    safe = dice.choice([":,!", ":,!", ":,!", ""])
    return "?" + "&".join(f"{key}={quote(value, safe=safe)}" for key, value in pairs)


def _random_value_for_repeated_key(dice: Dice, pairs: list[tuple[str, str]]) -> str:
    return dice.choice(
        [
            dice.choice(pairs)[1],
            "1",
            "2",
            "0",
            "none",
            "isolate",
            "",
            "x",
            "VCPU:2",
            f" {PROVIDERS[0]}",
        ]
    )


def random_resources(dice: Dice, classes: list[str] | None = None) -> str:
    if classes is None:
        classes = [dice.resource_class() for _ in range(dice.choice([1, 1, 2, 3]))]
    if dice.chance(0.03):
        return dice.choice(
            ["", "VCPU", "VCPU:", "VCPU:0", "VCPU:-1", "VCPU:1:2", ":1", "VCPU:1,", ",", "VCPU:x",
             "VCPU:1,VCPU:2", "VCPU: 1", "VCPU:1.0", "VCPU:99999999999", "VCPU:1;DISK_GB:1",
             "VCPU:\u20031\u00a0"]
        )  # fmt: skip
    return ",".join(f"{name}:{dice.choice([1, 1, 1, 1, 1, 2, 2, 3, 4, 17])}" for name in classes)


def random_required(dice: Dice) -> str:
    if dice.chance(0.03):
        return dice.choice(
            ["", ",", "!", "in:", "in:,", "!in:HW_CPU_X86_AVX", "HW_CPU_X86_AVX,",
             "in:HW_CPU_X86_AVX,!CUSTOM_FAST", "!!CUSTOM_FAST", "!!", "hw_cpu_x86_avx",
             " CUSTOM_FAST", "CUSTOM_FAST,!CUSTOM_FAST", "CUSTOM_FAST,CUSTOM_FAST"]
        )  # fmt: skip
    names = [dice.trait() for _ in range(dice.choice([1, 1, 1, 2]))]
    kind = dice.choice(["plain", "plain", "forbidden", "forbidden", "any", "any", "mixed"])
    if kind == "any":
        return "in:" + ",".join([*names, dice.trait(), dice.trait()])
    if kind == "forbidden":
        return f"!{dice.choice(FORBIDDEN)}"
    if kind == "mixed":
        return ",".join([*names, f"!{dice.choice(FORBIDDEN)}"])
    return ",".join(names)


def random_member_of(dice: Dice) -> str:
    uuid = dice.uuid(AGGREGATES)
    if dice.chance(0.03):
        return dice.choice(
            ["", "in:", "!", "!in:", "in:,", f"in:{uuid},", f"in:!{uuid}", f"!!{uuid}", "x",
             f"{uuid},{AGGREGATES[0]}", f" {uuid}", f"!{uuid},{uuid}", f"in:in:{uuid}"]
        )  # fmt: skip
    several = ",".join([uuid, *dice.sample(AGGREGATES, 0, 2)])
    return dice.choice([uuid, uuid, f"in:{several}", f"in:{several}", f"!{uuid}", f"!in:{several}"])
