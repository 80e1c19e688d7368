# SPDX-License-Identifier: Apache-2.0
"""Random requests: each subject adds fields that filters or weighers read."""

from collections.abc import Callable
from typing import Any

from tests.differential.generate.dice import Dice
from tests.differential.hosts.generate import places
from tests.differential.hosts.generate.pools import (
    CELLS,
    FLAVORS,
    IMAGES,
    INSTANCES,
    OPERATORS,
    OWN_INSTANCE,
    PROJECTS,
    SPECS,
)
from tests.differential.hosts.generate.queries import random_query

Document = dict[str, Any]
Subject = Callable[[Dice, Document], None]


def _add_unscoped_extra_spec(dice: Dice, spec: Document) -> None:
    key = dice.choice(sorted(SPECS))
    spec["flavor"]["extra_specs"][key] = _random_comparison(dice, SPECS[key])


def _add_aggregate_extra_spec(dice: Dice, spec: Document) -> None:
    key = dice.choice(sorted(SPECS))
    comparison = _random_comparison(dice, SPECS[key])
    spec["flavor"]["extra_specs"][f"aggregate_instance_extra_specs:{key}"] = comparison


#: Attributes of hosts, and values that they may have.
_CAPABILITIES = {
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
    "gpu": SPECS["gpu"],
    "ssd": SPECS["ssd"],
    "speed": SPECS["speed"],
    "nothing": ("x",),
    "updated": ("x",),
    "cell_uuid": CELLS,
    "numa_topology": ("x",),
    "supported_instances": ("kvm",),
}
_ATTRIBUTES = ("vcpus_total", "free_ram_mb", "hypervisor_type", "host", "cpu_info", "nothing")


def _add_capability_extra_spec(dice: Dice, spec: Document) -> None:
    key = dice.choice(sorted(_CAPABILITIES))
    spec["flavor"]["extra_specs"][f"capabilities:{key}"] = _random_comparison(
        dice, _CAPABILITIES[key]
    )


def _add_attribute_extra_spec(dice: Dice, spec: Document) -> None:
    key = dice.choice(_ATTRIBUTES)
    values = _CAPABILITIES.get(key, ("avx", "1"))
    spec["flavor"]["extra_specs"][key] = _random_comparison(dice, values)


def _add_address_bits(dice: Dice, spec: Document) -> None:
    spec["flavor"]["extra_specs"]["hw:maxphysaddr_bits"] = dice.choice(["40", "42", "48"])
    if dice.chance(0.7):
        spec["flavor"]["extra_specs"]["hw:maxphysaddr_mode"] = "emulate"


def _add_image_address_bits(dice: Dice, spec: Document) -> None:
    spec["image"]["properties"]["hw_maxphysaddr_bits"] = dice.choice([40, 42, 48])


_ODD = (
    "", " ", ">=", "<or>", "<all-in>", "<in>", "= x", "s== ", "== 1 2", "nope 1", "=1", "<or>1",
    "<or> 1 2 <or> 4", "<or> <or>", "<or> 1 <or>", "== nan", ">= inf", "!= 1e400", "s<", "S== 1",
    "<all-in> av fp", "<in> v x", "> 1", "< 9", "=> 1", "== 0x10", ">= 1_0",
)  # fmt: skip


def _random_comparison(dice: Dice, values: tuple[str, ...]) -> str:
    kind = dice.integer(0, 9)
    if kind < 3:
        return dice.choice(values)
    if kind == 3:
        return " ".join(f"<or> {dice.choice(values)}" for _ in range(dice.integer(1, 3)))
    if kind == 4:
        return f"<all-in> {' '.join(dice.sample(values, 1, 2))}"
    if dice.chance(0.1):
        return dice.choice(_ODD)
    return f"{dice.choice(OPERATORS)} {dice.choice(values)}"


def _add_image_properties(dice: Dice, spec: Document) -> None:
    spec["image"]["properties"] |= places.random_properties(dice)


def _add_host_hint(dice: Dice, spec: Document) -> None:
    uuids = dice.sample(INSTANCES, 1, 3)
    if dice.chance(0.05):
        uuids = [uuid.upper() for uuid in uuids]
    single = uuids[0] if dice.chance(0.4) else uuids
    spec["scheduler_hints"][dice.choice(["same_host", "different_host"])] = single


def _add_query_hint(dice: Dice, spec: Document) -> None:
    spec["scheduler_hints"]["query"] = random_query(dice)


def _add_near_address_hint(dice: Dice, spec: Document) -> None:
    near = dice.choice(["10.0.0.5", "10.0.1.1", "192.168.3.4", "fd00::2"])
    spec["scheduler_hints"]["build_near_host_ip"] = near
    if dice.chance(0.6):
        spec["scheduler_hints"]["cidr"] = dice.choice(["/24", "/16", "/31", "/32", "/8", "/0"])
    if dice.chance(0.05):
        odd = dice.choice([("build_near_host_ip", "nowhere"), ("cidr", "24"), ("cidr", "/200")])
        spec["scheduler_hints"][odd[0]] = odd[1]


def _add_rebuild_hint(dice: Dice, spec: Document) -> None:
    spec["scheduler_hints"]["_nova_check_type"] = dice.choice(["rebuild", "rebuild", "other"])


def _add_requested_cell(dice: Dice, spec: Document) -> None:
    spec["requested_destination"] = {
        "cell": dice.choice(CELLS),
        "allow_cross_cell_move": dice.chance(0.8),
    }


#: Weights of the subjects in the random choice.
_SUBJECTS: dict[Subject, int] = {
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


def random_request(dice: Dice, instances: tuple[Document, ...]) -> Document:
    spec: Document = {
        "instance_uuids": [OWN_INSTANCE],
        "project_id": dice.choice(PROJECTS),
        "user_id": "u1",
        "flavor": {
            "name": dice.choice(FLAVORS),
            "vcpus": dice.choice([1, 4]),
            "memory_mb": dice.choice([512, 8192]),
            "root_gb": dice.choice([0, 10]),
            "extra_specs": {},
        },
        "image": {"properties": {}},
        "scheduler_hints": {},
    }
    if dice.chance(0.9):
        spec["image"]["id"] = dice.choice(IMAGES)
    if dice.chance(0.4):
        spec["instance_group"] = places.random_group(dice, instances)
    drawn = dice.random.choices([*_SUBJECTS], [*_SUBJECTS.values()], k=dice.integer(0, 4))
    for subject in drawn:
        subject(dice, spec)
    return spec
