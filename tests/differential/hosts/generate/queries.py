# SPDX-License-Identifier: Apache-2.0
"""Random conditions on hosts for the hint ``query``."""

import json
from typing import Any

from tests.differential.generate.random_values import RandomSource

_NUMBER_VARIABLES = {
    "$free_ram_mb": (0, 1024, 16384),
    "$vcpus_total": (4, 8, 64),
    "$num_instances": (0, 1, 5),
    "$num_io_ops": (0, 1),
    "$total_usable_disk_gb": (40, 500, 500.0),
    "$free_disk_mb": (0, 40960),
}
_TEXT_VARIABLES = {
    "$host": ("cn1", "cn2", "ir1"),
    "$nodename": ("bm1", "cn3"),
    "$hypervisor_type": ("QEMU", "xen"),
    "$stats.num_instances": ("0", "1"),
    "$stats.gpu": ("1", "2"),
    "$service.disabled": (False, True),
    "$nothing": ("x", 1),
    "$nothing.at.all": ("x",),
    "$host_ip": ("10.0.0.1",),
    "": ("x",),
}


def random_query(rng: RandomSource) -> str:
    if rng.chance(0.05):
        return rng.choice(["", "[", "[]", '["=="]', '{"=": 1}', '["and"]', '"x"', '["not"]', "{}"])
    return json.dumps(_random_condition(rng, rng.integer(0, 2)))


def _random_condition(rng: RandomSource, depth: int) -> list[Any]:
    if depth == 0:
        return _random_comparison(rng)
    many = rng.integer(0 if rng.chance(0.05) else 1, 3)
    return [
        rng.choice(["and", "or", "not"]),
        *(_random_condition(rng, rng.integer(0, depth - 1)) for _ in range(many)),
    ]


def _random_comparison(rng: RandomSource) -> list[Any]:
    pool = _NUMBER_VARIABLES if rng.chance(0.5) else _TEXT_VARIABLES
    name = rng.choice(sorted(pool))
    operators = ["=", "in", "<", ">", "<=", ">="] if pool is _NUMBER_VARIABLES else ["=", "in"]
    if rng.chance(0.03):
        operators = ["<", ">="]
    values = rng.sample(pool[name], 0 if rng.chance(0.05) else 1, 2)
    if rng.chance(0.1):
        values.append(rng.choice(sorted(pool)))
    return [rng.choice(operators), name, *values]
