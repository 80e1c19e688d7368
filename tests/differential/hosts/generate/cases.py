# SPDX-License-Identifier: Apache-2.0
"""Random cases with options."""

from typing import Any

from tests.differential.generate.dice import Dice
from tests.differential.hosts.case import FILTERS, Case
from tests.differential.hosts.generate import places
from tests.differential.hosts.generate.hosts import random_hosts
from tests.differential.hosts.generate.pools import HOSTS, IMAGES, METRICS, OTHERS, PROPERTIES
from tests.differential.hosts.generate.requests import random_request

_OPTIONS = {
    "DEFAULT.service_down_time": (30, 60, 120),
    "filter_scheduler.max_io_ops_per_host": (0, 1, 8),
    "filter_scheduler.max_instances_per_host": (1, 5, 50),
    "filter_scheduler.restrict_isolated_hosts_to_isolated_images": (True, False),
    "filter_scheduler.image_properties_default_architecture": ("x86_64", "aarch64"),
    "filter_scheduler.aggregate_image_properties_isolation_namespace": ("os", "hw", "none"),
    "filter_scheduler.aggregate_image_properties_isolation_separator": ("_", "."),
    "metrics.required": (True, False, False),
    "metrics.weight_of_unavailable": (-10000.0, 0.0, 5.5),
}
#: Multipliers that may not be negative.
_NOT_NEGATIVE = ("soft_affinity", "soft_anti_affinity")


def random_case(dice: Dice) -> Case:
    instances = places.random_instances(dice)
    spec, options = random_request(dice, instances), _random_options(dice)
    # In nova, instances that the same request has placed have no image for the weigher.
    if dice.chance(0.5) and not options.get("filter_scheduler.image_props_weight_multiplier"):
        spec["instance_uuids"] += OTHERS[: dice.integer(1, 3)]
    return Case(
        hosts=random_hosts(dice),
        request_spec=spec,
        aggregates=places.random_aggregates(dice),
        instances=instances,
        options=options,
        chain=tuple(dice.sample(FILTERS, 0, 4)),
    )


def _random_options(dice: Dice) -> dict[str, Any]:
    options: dict[str, Any] = {
        name: dice.choice(_OPTIONS[name]) for name in dice.sample(sorted(_OPTIONS), 0, 4)
    }
    for name in dice.sample(places.MULTIPLIERS, 0, 4):
        group, option = ("metrics", "") if name == "metrics" else ("filter_scheduler", f"{name}_")
        value = dice.choice([0.0, 1.0, 2.5, 1000.0])
        sign = dice.choice([1, 1, -1]) if name not in _NOT_NEGATIVE else 1
        options[f"{group}.{option}weight_multiplier"] = sign * value
    if dice.chance(0.4):
        options["filter_scheduler.image_props_weight_multiplier"] = dice.choice([1.0, -2.0])
    if dice.chance(0.3):
        options["filter_scheduler.isolated_images"] = dice.sample(IMAGES, 0, 2)
    if dice.chance(0.3):
        options["filter_scheduler.isolated_hosts"] = dice.sample(HOSTS, 0, 2)
    if dice.chance(0.6):
        options["metrics.weight_setting"] = _random_ratios(dice, METRICS)
        if dice.chance(0.7):
            options["metrics.required"] = False
    if dice.chance(0.3):
        options["filter_scheduler.image_props_weight_setting"] = _random_ratios(
            dice, tuple(PROPERTIES)
        )
    return options


def _random_ratios(dice: Dice, names: tuple[str, ...]) -> list[str]:
    ratios = [
        f"{name}={dice.choice(['1', '-0.5', '2.5', '0'])}" for name in dice.sample(names, 1, 3)
    ]
    if dice.chance(0.1):
        ratios.append(dice.choice(["broken", "=1", f"{names[0]}=x", f"{names[0]}=3"]))
    return ratios
