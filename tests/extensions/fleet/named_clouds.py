# SPDX-License-Identifier: Apache-2.0
"""Random clouds with names in all places, and requests."""

from random import Random
from typing import Any
from uuid import UUID

HOSTS = ["acme-kvm1", "acme-kvm2", "acme-kvm10", "blue.example.org", "cn-7", "zeta"]
ZONES = ["berlin", "lima", "milan"]
PROJECTS = ["acme", "blue-bank", "f2a1c6d7e8b94f0a9d1c2b3a4d5e6f70"]
USERS = ["ann", "bob"]
CUSTOM_TRAITS = ["CUSTOM_ACME_GOLD", "CUSTOM_LICENSED", "CUSTOM_PHYSNET_ACME"]
CUSTOM_CLASS = "CUSTOM_ACME_LICENCE"
RACKS = ["hall-nord", "hall-sued"]
DISKS = ["acme-ssd", "acme-hdd,acme-ssd", "nvme"]
FLAVORS = ["acme.small", "blue.large", "gpu-acme", "pinned"]
IMAGES = ["acme-rhel", "Ubuntu of Blue"]
LAST_SEEN = "2099-01-01T00:00:00Z"
#: Names that stay: keys of metadata and stats that flavors name, and the scheduling policy.
KEPT_NAMES = {"rack", "disk", "acme_level", "default"}
#: No request names this flavor, because warnings about dropped keys differ. It names the keys that
#: requests compare.
_OLD_FLAVOR = {
    "name": "old",
    "id": "7",
    "vcpus": 1,
    "memory_mb": 1,
    "extra_specs": {
        "acme:gold": "yes",
        "capabilities:stats:acme_level": "gold",
        "aggregate_instance_extra_specs:disk": "nvme",
    },
}


def draw_uuid(random: Random) -> str:
    return str(UUID(int=random.getrandbits(128), version=4))


def draw_cloud(random: Random) -> dict[str, Any]:
    """Return the fleet document of a random cloud."""
    # In the order of a dump, so that loading a dump stores the rows in the same order.
    hosts = sorted(random.sample(HOSTS, random.randint(3, 6)), key=HOSTS.index)
    pool = draw_uuid(random)
    flavors = [_draw_flavor(random, name) for name in FLAVORS]
    images = [_draw_image(random, name) for name in IMAGES]
    described_hosts = [_draw_host(random, name, number, pool) for number, name in enumerate(hosts)]
    groups = [
        {
            "name": f"acme {policy}",
            "uuid": draw_uuid(random),
            "policy": policy,
            "project": "acme",
            "user": "ann",
        }
        for policy in ("affinity", "anti-affinity", "soft-anti-affinity")
    ]
    return {
        "traits": CUSTOM_TRAITS,
        "resource_classes": [CUSTOM_CLASS],
        "flavors": [*flavors, _OLD_FLAVOR],
        "images": images,
        "server_groups": groups,
        "aggregates": list(_draw_aggregates(random, hosts)),
        "hosts": described_hosts,
        "services": [
            {"host": hosts[0], "status": "disabled", "disabled_reason": "DIMM of acme-kvm1 broken"}
        ],
        "providers": [
            {
                "name": "acme storage",
                "inventories": {"DISK_GB": {"total": 500}},
                "traits": ["MISC_SHARES_VIA_AGGREGATE"],
                "aggregates": [pool],
            }
        ],
        "instances": [
            _draw_instance(random, number, hosts, images, groups)
            for number in range(random.randint(2, 8))
        ],
        "allocations": [
            {
                "consumer": draw_uuid(random),
                "project": random.choice(PROJECTS),
                "user": "bob",
                "allocations": {described_hosts[-1].get("node", hosts[-1]): {CUSTOM_CLASS: 1}},
            }
        ],
    }


def _draw_flavor(random: Random, name: str) -> dict[str, Any]:
    extra_specs = {
        "acme.small": {
            "aggregate_instance_extra_specs:disk": random.choice(
                ["acme-ssd", "<or> acme-ssd <or> nvme", "<in> acme", "s== nvme", "s!= nvme"]
            )
        },
        "blue.large": {
            f"trait:{random.choice(CUSTOM_TRAITS[:2])}": random.choice(["required", "forbidden"]),
            "capabilities:hypervisor_hostname": random.choice(["acme-kvm2", "s!= acme-kvm2"]),
            "scheduler:prefer_traits": "CUSTOM_ACME_GOLD,CUSTOM_LICENSED",
            "scheduler:spread_by": "rack",
            "scheduler:max_skew": "1",
        },
        "gpu-acme": {
            "resources1:VGPU": "1",
            "trait1:CUSTOM_ACME_GOLD": "required",
            f"resources:{CUSTOM_CLASS}": "1",
            "capabilities:stats:acme_level": random.choice(["s== gold", "gold"]),
        },
        "pinned": {"hw:cpu_policy": "dedicated", "hw:numa_nodes": "1"},
    }
    return {
        "name": name,
        **({"id": draw_uuid(random)} if random.random() < 0.5 else {"id": f"{name}-id"}),
        "vcpus": random.choice([1, 2]),
        "memory_mb": random.choice([512, 2048]),
        "root_gb": random.choice([1, 10]),
        "description": "for Acme only",
        "extra_specs": {
            key: value for key, value in extra_specs[name].items() if random.random() < 0.7
        },
        **({"is_public": False, "projects": ["acme"]} if random.random() < 0.3 else {}),
    }


def _draw_image(random: Random, name: str) -> dict[str, Any]:
    properties = {
        "os_distro": random.choice(["rhel", "ubuntu"]),
        f"trait:{CUSTOM_TRAITS[1]}": "required",
        "os_admin_user": "acme-root",
        "acme_note": "do not share",
        "img_hv_type": "kvm",
        "owner_id": "acme",
    }
    return {
        "id": draw_uuid(random),
        "name": name,
        "owner": random.choice(PROJECTS),
        "visibility": "public",
        "tags": ["acme-golden"],
        "properties": {key: properties[key] for key in properties if random.random() < 0.5},
    }


def _draw_aggregates(random: Random, hosts: list[str]) -> Any:
    zones = random.sample(ZONES, random.randint(1, 3))
    # Each zone has a host.
    zone_by_host = {host: random.choice([*zones, None]) for host in hosts}
    zone_by_host |= dict(zip(hosts, zones, strict=False))
    for zone in zones:
        names = [host for host in hosts if zone_by_host[host] == zone]
        yield {"name": f"{zone} zone", "availability_zone": zone, "hosts": names}
    metadata = (
        {"filter_tenant_id": "acme, blue-bank"},
        {"filter_tenant_id_acme": "acme", "prefer_tenant_id": PROJECTS[2]},
        {f"trait:{CUSTOM_TRAITS[1]}": "required"},
        {"instance_type": "acme.small, gpu-acme"},
        {"rack": RACKS[0], "disk": random.choice(DISKS), "acme_secret": "blue-bank"},
        {"rack": RACKS[1], "disk": random.choice(DISKS), "os_distro": "rhel"},
        {"cpu_allocation_ratio": "1.5", "ram_weight_multiplier": "2", "sched_policy": "default"},
    )
    for number, values in enumerate(metadata):
        if random.random() < 0.4:
            names = [host for host in hosts if random.random() < 0.4]
            yield {"name": f"acme pool {number}", "metadata": values, "hosts": names}


def _draw_host(random: Random, name: str, number: int, pool: str) -> dict[str, Any]:
    host: dict[str, Any] = {
        "host": name,
        "vcpus": random.choice([4, 16]),
        "memory_mb": random.choice([4096, 65536]),
        "local_gb": random.choice([0, 20, 1000]),
        "host_ip": f"10.{random.randint(1, 2)}.{random.randint(1, 2)}.{number + 1}",
        "cell_uuid": "cccccccc-0000-4000-8000-000000000001",
        "hypervisor_type": "QEMU",
        "hypervisor_version": 8002000,
        "supported_hv_specs": [["x86_64", "kvm", "hvm"]],
        "last_seen_up": LAST_SEEN,
        "stats": {
            "num_instances": random.randint(0, 3),
            "num_proj_acme": 1,
            "acme_level": random.choice(["gold", "silver"]),
            "acme_asset": "blue-bank 17",
        },
        "traits": [trait for trait in CUSTOM_TRAITS if random.random() < 0.5],
        "inventories": {CUSTOM_CLASS: {"total": 8}},
        "pci_device_pools": [
            {
                "vendor_id": "8086",
                "product_id": "10fb",
                "numa_node": 0,
                "count": 2,
                "tags": {"physical_network": "acme-net", "acme_slot": "left"},
            }
        ],
        "numa_topology": {
            "cells": [{"id": 0, "cpuset": [0, 1], "pcpuset": [2, 3], "memory": 4096}]
        },
    }
    if random.random() < 0.3:
        host["node"] = f"node-{name}"
    if random.random() < 0.5:
        host["providers"] = [
            {"name": f"acme bridge {number}", "traits": ["CUSTOM_PHYSNET_ACME"]},
            {
                "name": "{root}_gpu[0-1]",
                "inventories": {"VGPU": {"total": 2}},
                "traits": random.choice([[], ["CUSTOM_ACME_GOLD"]]),
            },
        ]
    if not host["local_gb"]:
        host["provider_aggregates"] = [pool]
    return host


def _draw_instance(
    random: Random, number: int, hosts: list[str], images: list[Any], groups: list[Any]
) -> dict[str, Any]:
    instance = {
        "name": f"acme-web-{number}",
        "uuid": draw_uuid(random),
        "host": random.choice(hosts),
        "flavor": {
            "name": "deleted of acme",
            "vcpus": 1,
            "memory_mb": 256,
            "root_gb": 0,
            "extra_specs": {},
        }
        if random.random() < 0.3
        else "acme.small",
        "image": random.choice(images)["id"],
        "project": random.choice(PROJECTS),
        "user": random.choice(USERS),
        "metadata": {"owner": "acme"},
        "system_metadata": {"image_base_image_ref": "acme"},
        "request": {
            "availability_zone": random.choice([None, *ZONES]),
            "scheduler_hints": {"different_host": [draw_uuid(random)], "acme_hint": "acme"},
            "is_bfv": True,
            "requested_resources": [],
        },
        "allocations": {},
    }
    if random.random() < 0.5:
        instance["server_group"] = random.choice(groups)["uuid"]
    return instance


def draw_request(random: Random, cloud: dict[str, Any]) -> dict[str, Any]:
    """Return the body of a random explanation."""
    hosts = [host["host"] for host in cloud["hosts"]]
    # Suggestions for unknown names compare spellings, so requests name existing zones.
    zones = [item["availability_zone"] for item in cloud["aggregates"] if "metadata" not in item]
    flavor = random.choice(cloud["flavors"][:-1])
    spec: dict[str, Any] = {
        "flavor": random.choice([flavor["name"], flavor["id"]]),
        "project_id": random.choice(PROJECTS),
        "user_id": random.choice(USERS),
        "num_instances": random.choice([1, 1, 2]),
        "is_bfv": True,
    }
    if random.random() < 0.3:
        spec["flavor"] = {
            "name": "inline of acme",
            "vcpus": random.choice([1, 4]),
            "memory_mb": random.choice([256, 4096]),
            "extra_specs": {f"trait:{random.choice(CUSTOM_TRAITS)}": "required"},
        }
    optional = {
        "image": random.choice(cloud["images"])[random.choice(["id", "name"])],
        "availability_zone": random.choice([*zones, ",".join(zones), f"{zones[0]}:{hosts[0]}"]),
        "ignore_hosts": random.sample(hosts, 1),
        "force_hosts": random.sample(hosts, 2),
        "instance_group": random.choice(cloud["server_groups"])["uuid"],
        "scheduler_hints": _draw_hints(random, cloud, hosts),
        "requested_destination": {
            "host": random.choice(hosts),
            "cell": "cccccccc-0000-4000-8000-000000000001",
        },
        "retry": {"num_attempts": 1, "hosts": [[hosts[0], hosts[0]]]},
    }
    chances = dict.fromkeys(optional, 0.2) | {"force_hosts": 0.05, "requested_destination": 0.05}
    spec |= {key: value for key, value in optional.items() if random.random() < chances[key]}
    body = {"request_spec": spec, "max_rejected": 0}
    if random.random() < 0.4:
        body["hosts"] = [random.choice([*hosts, "acme storage"])]
    if random.random() < 0.2:
        body["changes"] = [{"drain": [hosts[-1]]}]
    return body


def _draw_hints(random: Random, cloud: dict[str, Any], hosts: list[str]) -> dict[str, Any]:
    hints: dict[str, Any] = {
        "same_host": [random.choice(cloud["instances"])["uuid"]],
        "different_host": random.choice(cloud["instances"])["uuid"],
        "query": random.choice(
            [
                f'["in", "$host", "{hosts[0]}", "{hosts[1]}"]',
                '["and", [">=", "$free_ram_mb", 1024], ["=", "$stats.acme_level", "gold"]]',
                ["not", ["=", "$hypervisor_hostname", hosts[1]]],
            ]
        ),
        "build_near_host_ip": random.choice(["10.1.1.9", cloud["hosts"][0]["host_ip"]]),
        "cidr": random.choice(["/24", "/16"]),
    }
    return {key: value for key, value in hints.items() if random.random() < 0.3}
