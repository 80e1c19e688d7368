# SPDX-License-Identifier: Apache-2.0
"""Random requests: each subject adds fields that filters or weighers read."""

from collections.abc import Callable
from typing import Any

from tests.differential.generate.random_values import RandomSource
from tests.differential.hosts.generate import places
from tests.differential.hosts.generate.pools import (
    CELL_UUIDS,
    EXTRA_SPEC_OPERATORS,
    EXTRA_SPEC_VALUES,
    FLAVOR_NAMES,
    IMAGE_UUIDS,
    INSTANCE_UUIDS,
    OWN_INSTANCE,
    PROJECT_IDS,
)
from tests.differential.hosts.generate.queries import random_query

JsonDocument = dict[str, Any]
RequestSpecModifier = Callable[[RandomSource, JsonDocument], None]


def _add_unscoped_extra_spec(rng: RandomSource, spec: JsonDocument) -> None:
    key = rng.choice(sorted(EXTRA_SPEC_VALUES))
    spec["flavor"]["extra_specs"][key] = _random_comparison(rng, EXTRA_SPEC_VALUES[key])


def _add_aggregate_extra_spec(rng: RandomSource, spec: JsonDocument) -> None:
    key = rng.choice(sorted(EXTRA_SPEC_VALUES))
    comparison = _random_comparison(rng, EXTRA_SPEC_VALUES[key])
    spec["flavor"]["extra_specs"][f"aggregate_instance_extra_specs:{key}"] = comparison


#: Attributes of hosts, and values that they may have.
_CAPABILITY_VALUES = {
    "hypervisor_type": ("QEMU", "xen"),
    "hypervisor_version": ("5000001", "4002000"),
    "vcpus_total": ("4", "16", "64"),
    "free_ram_mb": ("1024", "16384"),
    "host": ("cn1", "cn2"),
    "nodename": ("bm1",),
    "cpu_allocation_ratio": ("4", "1.5", "16.0"),
    "cpu_info:arch": ("x86_64", "aarch64"),
    "cpu_info:features": ("avx", "avx2", "fpu avx"),
    "cpu_info:topology:cores": ("4", "10"),
    "cpu_info:topology:sockets": ("1",),
    "cpu_info:nothing:at:all": ("1",),
    "cpu_info:vendor:deeper": ("Intel",),
    "stats:gpu": ("1", "2"),
    "service:disabled": ("False", "True"),
    "limits:vcpu": ("1",),
    "gpu": EXTRA_SPEC_VALUES["gpu"],
    "ssd": EXTRA_SPEC_VALUES["ssd"],
    "speed": EXTRA_SPEC_VALUES["speed"],
    "nothing": ("x",),
    "updated": ("x",),
    "cell_uuid": CELL_UUIDS,
    "numa_topology": ("x",),
    "supported_instances": ("kvm",),
}
_HOST_ATTRIBUTES = ("vcpus_total", "free_ram_mb", "hypervisor_type", "host", "cpu_info", "nothing")


def _add_capability_extra_spec(rng: RandomSource, spec: JsonDocument) -> None:
    key = rng.choice(sorted(_CAPABILITY_VALUES))
    spec["flavor"]["extra_specs"][f"capabilities:{key}"] = _random_comparison(
        rng, _CAPABILITY_VALUES[key]
    )


def _add_attribute_extra_spec(rng: RandomSource, spec: JsonDocument) -> None:
    key = rng.choice(_HOST_ATTRIBUTES)
    values = _CAPABILITY_VALUES.get(key, ("avx", "1"))
    spec["flavor"]["extra_specs"][key] = _random_comparison(rng, values)


def _add_address_bits(rng: RandomSource, spec: JsonDocument) -> None:
    spec["flavor"]["extra_specs"]["hw:maxphysaddr_bits"] = rng.choice(["40", "42", "48"])
    if rng.chance(0.7):
        spec["flavor"]["extra_specs"]["hw:maxphysaddr_mode"] = "emulate"


def _add_image_address_bits(rng: RandomSource, spec: JsonDocument) -> None:
    spec["image"]["properties"]["hw_maxphysaddr_bits"] = rng.choice([40, 42, 48])


_UNUSUAL_VALUES = (
    "", " ", ">=", "<or>", "<all-in>", "<in>", "= x", "s== ", "== 1 2", "nope 1", "=1", "<or>1",
    "<or> 1 2 <or> 4", "<or> <or>", "<or> 1 <or>", "== nan", ">= inf", "!= 1e400", "s<", "S== 1",
    "<all-in> av fp", "<in> v x", "> 1", "< 9", "=> 1", "== 0x10", ">= 1_0",
)  # fmt: skip


def _random_comparison(rng: RandomSource, values: tuple[str, ...]) -> str:
    kind = rng.integer(0, 9)
    if kind < 3:
        return rng.choice(values)
    if kind == 3:
        return " ".join(f"<or> {rng.choice(values)}" for _ in range(rng.integer(1, 3)))
    if kind == 4:
        return f"<all-in> {' '.join(rng.sample(values, 1, 2))}"
    if rng.chance(0.1):
        return rng.choice(_UNUSUAL_VALUES)
    return f"{rng.choice(EXTRA_SPEC_OPERATORS)} {rng.choice(values)}"


def _add_image_properties(rng: RandomSource, spec: JsonDocument) -> None:
    spec["image"]["properties"] |= places.random_image_properties(rng)


def _add_host_hint(rng: RandomSource, spec: JsonDocument) -> None:
    uuids = rng.sample(INSTANCE_UUIDS, 1, 3)
    if rng.chance(0.05):
        uuids = [uuid.upper() for uuid in uuids]
    single = uuids[0] if rng.chance(0.4) else uuids
    spec["scheduler_hints"][rng.choice(["same_host", "different_host"])] = single


def _add_query_hint(rng: RandomSource, spec: JsonDocument) -> None:
    spec["scheduler_hints"]["query"] = random_query(rng)


def _add_near_address_hint(rng: RandomSource, spec: JsonDocument) -> None:
    near = rng.choice(["10.0.0.5", "10.0.1.1", "192.168.3.4", "fd00::2"])
    spec["scheduler_hints"]["build_near_host_ip"] = near
    if rng.chance(0.6):
        spec["scheduler_hints"]["cidr"] = rng.choice(["/24", "/16", "/31", "/32", "/8", "/0"])
    if rng.chance(0.05):
        odd = rng.choice([("build_near_host_ip", "nowhere"), ("cidr", "24"), ("cidr", "/200")])
        spec["scheduler_hints"][odd[0]] = odd[1]


def _add_rebuild_hint(rng: RandomSource, spec: JsonDocument) -> None:
    spec["scheduler_hints"]["_nova_check_type"] = rng.choice(["rebuild", "rebuild", "other"])


def _add_requested_cell(rng: RandomSource, spec: JsonDocument) -> None:
    spec["requested_destination"] = {
        "cell": rng.choice(CELL_UUIDS),
        "allow_cross_cell_move": rng.chance(0.8),
    }


#: Weights of the subjects in the random choice.
_FREQUENCY_BY_MODIFIER: dict[RequestSpecModifier, int] = {
    _add_unscoped_extra_spec: 4,
    _add_aggregate_extra_spec: 4,
    _add_capability_extra_spec: 6,
    _add_attribute_extra_spec: 2,
    _add_address_bits: 2,
    _add_image_address_bits: 1,
    _add_image_properties: 8,
    _add_host_hint: 5,
    _add_query_hint: 5,
    _add_near_address_hint: 3,
    _add_rebuild_hint: 1,
    _add_requested_cell: 3,
}


def random_request(rng: RandomSource, instances: tuple[JsonDocument, ...]) -> JsonDocument:
    spec: JsonDocument = {
        "instance_uuids": [OWN_INSTANCE],
        "project_id": rng.choice(PROJECT_IDS),
        "user_id": "u1",
        "flavor": {
            "name": rng.choice(FLAVOR_NAMES),
            "vcpus": rng.choice([1, 4]),
            "memory_mb": rng.choice([512, 8192]),
            "root_gb": rng.choice([0, 10]),
            "extra_specs": {},
        },
        "image": {"properties": {}},
        "scheduler_hints": {},
    }
    if rng.chance(0.9):
        spec["image"]["id"] = rng.choice(IMAGE_UUIDS)
    if rng.chance(0.4):
        spec["instance_group"] = places.random_server_group(rng, instances)
    drawn = rng.random.choices(
        [*_FREQUENCY_BY_MODIFIER], [*_FREQUENCY_BY_MODIFIER.values()], k=rng.integer(0, 4)
    )
    for modifier in drawn:
        modifier(rng, spec)
    return spec
