# SPDX-License-Identifier: Apache-2.0
"""Requests: each subject adds what some filter or weigher heeds."""

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
from tests.differential.hosts.generate.queries import query

Document = dict[str, Any]
Subject = Callable[[Dice, Document], None]


def _unscoped(dice: Dice, spec: Document) -> None:
    key = dice.one(sorted(SPECS))
    spec["flavor"]["extra_specs"][key] = _wanted(dice, SPECS[key])


def _of_aggregates(dice: Dice, spec: Document) -> None:
    key = dice.one(sorted(SPECS))
    wanted = _wanted(dice, SPECS[key])
    spec["flavor"]["extra_specs"][f"aggregate_instance_extra_specs:{key}"] = wanted


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


def _capabilities(dice: Dice, spec: Document) -> None:
    key = dice.one(sorted(_CAPABILITIES))
    spec["flavor"]["extra_specs"][f"capabilities:{key}"] = _wanted(dice, _CAPABILITIES[key])


def _attribute(dice: Dice, spec: Document) -> None:
    key = dice.one(_ATTRIBUTES)
    values = _CAPABILITIES.get(key, ("avx", "1"))
    spec["flavor"]["extra_specs"][key] = _wanted(dice, values)


def _address_bits(dice: Dice, spec: Document) -> None:
    spec["flavor"]["extra_specs"]["hw:maxphysaddr_bits"] = dice.one(["40", "42", "48"])
    if dice.chance(0.7):
        spec["flavor"]["extra_specs"]["hw:maxphysaddr_mode"] = "emulate"


def _address_bits_of_the_image(dice: Dice, spec: Document) -> None:
    spec["image"]["properties"]["hw_maxphysaddr_bits"] = dice.one([40, 42, 48])


_ODD = (
    "", " ", ">=", "<or>", "<all-in>", "<in>", "= x", "s== ", "== 1 2", "nope 1", "=1", "<or>1",
    "<or> 1 2 <or> 4", "<or> <or>", "<or> 1 <or>", "== nan", ">= inf", "!= 1e400", "s<", "S== 1",
    "<all-in> av fp", "<in> v x", "> 1", "< 9", "=> 1", "== 0x10", ">= 1_0",
)  # fmt: skip


def _wanted(dice: Dice, values: tuple[str, ...]) -> str:
    kind = dice.number(0, 9)
    if kind < 3:
        return dice.one(values)
    if kind == 3:
        return " ".join(f"<or> {dice.one(values)}" for _ in range(dice.number(1, 3)))
    if kind == 4:
        return f"<all-in> {' '.join(dice.some(values, 1, 2))}"
    if dice.chance(0.1):
        return dice.one(_ODD)
    return f"{dice.one(OPERATORS)} {dice.one(values)}"


def _properties(dice: Dice, spec: Document) -> None:
    spec["image"]["properties"] |= places.properties(dice)


def _host_hint(dice: Dice, spec: Document) -> None:
    uuids = dice.some(INSTANCES, 1, 3)
    if dice.chance(0.05):
        uuids = [uuid.upper() for uuid in uuids]
    single = uuids[0] if dice.chance(0.4) else uuids
    spec["scheduler_hints"][dice.one(["same_host", "different_host"])] = single


def _query(dice: Dice, spec: Document) -> None:
    spec["scheduler_hints"]["query"] = query(dice)


def _near_address(dice: Dice, spec: Document) -> None:
    near = dice.one(["10.0.0.5", "10.0.1.1", "192.168.3.4", "fd00::2"])
    spec["scheduler_hints"]["build_near_host_ip"] = near
    if dice.chance(0.6):
        spec["scheduler_hints"]["cidr"] = dice.one(["/24", "/16", "/31", "/32", "/8", "/0"])
    if dice.chance(0.05):
        odd = dice.one([("build_near_host_ip", "nowhere"), ("cidr", "24"), ("cidr", "/200")])
        spec["scheduler_hints"][odd[0]] = odd[1]


def _rebuild(dice: Dice, spec: Document) -> None:
    spec["scheduler_hints"]["_nova_check_type"] = dice.one(["rebuild", "rebuild", "other"])


def _other_cell(dice: Dice, spec: Document) -> None:
    spec["requested_destination"] = {
        "cell": dice.one(CELLS),
        "allow_cross_cell_move": dice.chance(0.8),
    }


#: How often each subject comes up, in parts of all.
_SUBJECTS: dict[Subject, int] = {
    _unscoped: 4,
    _of_aggregates: 4,
    _capabilities: 6,
    _attribute: 2,
    _address_bits: 2,
    _address_bits_of_the_image: 1,
    _properties: 8,
    _host_hint: 5,
    _query: 5,
    _near_address: 3,
    _rebuild: 1,
    _other_cell: 3,
}


def request(dice: Dice, here: tuple[Document, ...]) -> Document:
    spec: Document = {
        "instance_uuids": [OWN_INSTANCE],
        "project_id": dice.one(PROJECTS),
        "user_id": "u1",
        "flavor": {
            "name": dice.one(FLAVORS),
            "vcpus": dice.one([1, 4]),
            "memory_mb": dice.one([512, 8192]),
            "root_gb": dice.one([0, 10]),
            "extra_specs": {},
        },
        "image": {"properties": {}},
        "scheduler_hints": {},
    }
    if dice.chance(0.9):
        spec["image"]["id"] = dice.one(IMAGES)
    if dice.chance(0.4):
        spec["instance_group"] = places.group(dice, here)
    drawn = dice.random.choices([*_SUBJECTS], [*_SUBJECTS.values()], k=dice.number(0, 4))
    for subject in drawn:
        subject(dice, spec)
    return spec
