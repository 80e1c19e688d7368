# SPDX-License-Identifier: Apache-2.0
"""Random cases with options."""

from typing import Any

from tests.differential.generate.random_values import RandomSource
from tests.differential.hosts.case import FILTERS, HostsCase
from tests.differential.hosts.generate import places
from tests.differential.hosts.generate.hosts import random_hosts
from tests.differential.hosts.generate.pools import (
    FURTHER_INSTANCE_UUIDS,
    HOST_NAMES,
    IMAGE_PROPERTY_VALUES,
    IMAGE_UUIDS,
    METRIC_NAMES,
)
from tests.differential.hosts.generate.requests import random_request

_OPTION_VALUES = {
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
_NON_NEGATIVE_MULTIPLIERS = ("soft_affinity", "soft_anti_affinity")


def random_case(rng: RandomSource) -> HostsCase:
    instances = places.random_instances(rng)
    spec, options = random_request(rng, instances), _random_options(rng)
    # In nova, instances that the same request has placed have no image for the weigher.
    if rng.chance(0.5) and not options.get("filter_scheduler.image_props_weight_multiplier"):
        spec["instance_uuids"] += FURTHER_INSTANCE_UUIDS[: rng.integer(1, 3)]
    return HostsCase(
        hosts=random_hosts(rng),
        request_spec=spec,
        aggregates=places.random_aggregates(rng),
        instances=instances,
        options=options,
        chain=tuple(rng.sample(FILTERS, 0, 4)),
    )


def _random_options(rng: RandomSource) -> dict[str, Any]:
    options = rng.draw_items(_OPTION_VALUES, 0, 4)
    for name in rng.sample(places.MULTIPLIERS, 0, 4):
        group, option = ("metrics", "") if name == "metrics" else ("filter_scheduler", f"{name}_")
        value = rng.choice([0.0, 1.0, 2.5, 1000.0])
        sign = rng.choice([1, 1, -1]) if name not in _NON_NEGATIVE_MULTIPLIERS else 1
        options[f"{group}.{option}weight_multiplier"] = sign * value
    if rng.chance(0.4):
        options["filter_scheduler.image_props_weight_multiplier"] = rng.choice([1.0, -2.0])
    if rng.chance(0.3):
        options["filter_scheduler.isolated_images"] = rng.sample(IMAGE_UUIDS, 0, 2)
    if rng.chance(0.3):
        options["filter_scheduler.isolated_hosts"] = rng.sample(HOST_NAMES, 0, 2)
    if rng.chance(0.6):
        options["metrics.weight_setting"] = _random_ratios(rng, METRIC_NAMES)
        if rng.chance(0.7):
            options["metrics.required"] = False
    if rng.chance(0.3):
        options["filter_scheduler.image_props_weight_setting"] = _random_ratios(
            rng, tuple(IMAGE_PROPERTY_VALUES)
        )
    return options


def _random_ratios(rng: RandomSource, names: tuple[str, ...]) -> list[str]:
    ratios = [f"{name}={rng.choice(['1', '-0.5', '2.5', '0'])}" for name in rng.sample(names, 1, 3)]
    if rng.chance(0.1):
        ratios.append(rng.choice(["broken", "=1", f"{names[0]}=x", f"{names[0]}=3"]))
    return ratios
