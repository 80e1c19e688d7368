# SPDX-License-Identifier: Apache-2.0
"""Random reports of hosts and states of their services."""

import json
from datetime import timedelta
from typing import Any

from tests.differential.generate.random_values import RandomSource
from tests.differential.hosts.case import NOW
from tests.differential.hosts.generate.pools import (
    CELL_UUIDS,
    EXTRA_SPEC_VALUES,
    HOST_AND_NODE_NAMES,
    METRIC_NAMES,
)
from tests.support.clouds import uuid_of

JsonDocument = dict[str, Any]

_SUPPORTED_HV_SPECS = (
    ["x86_64", "kvm", "hvm"], ["i686", "kvm", "hvm"], ["x86_64", "qemu", "hvm"],
    ["aarch64", "kvm", "hvm"], ["x86_64", "xen", "xen"], ["x86_64", "xen", "hvm"],
    ["x86_64", "ironic", "hvm"], ["x86_64", "uml", "uml"], ["x86_64", "lxc", "exe"],
    ["ppc64le", "qemu", "hvm"],
)  # fmt: skip
_HOST_ADDRESSES = ("10.0.0.1", "10.0.0.9", "10.0.1.7", "192.168.3.4", "fd00::1", "fd00::ffff:1")


def random_hosts(rng: RandomSource) -> tuple[JsonDocument, ...]:
    chosen = rng.sample(HOST_AND_NODE_NAMES, 1 if rng.chance(0.1) else 3, 7)
    usual = _random_report(rng, *HOST_AND_NODE_NAMES[0])
    return tuple(
        {
            "report": _copy_some_values(rng, usual, _random_report(rng, *node)),
            "service": _random_service(rng),
        }
        for node in chosen
    )


def _copy_some_values(rng: RandomSource, usual: JsonDocument, own: JsonDocument) -> JsonDocument:
    shared = rng.sample(sorted(set(usual) - {"uuid", "host", "hypervisor_hostname"}), 0)
    return {**own, **{key: usual[key] for key in shared if rng.chance(0.7)}}


def _random_report(rng: RandomSource, host: str, node: str) -> JsonDocument:
    memory, disk = rng.choice([4096, 16384, 65536, 131072]), rng.choice([40, 500, 2000])
    used, disk_used = rng.choice([0, 512, 4096, 20000]), rng.choice([0, 10, 100])
    return {
        "uuid": uuid_of(node),
        "host": host,
        "hypervisor_hostname": node,
        "cell_uuid": rng.choice(CELL_UUIDS),
        "hypervisor_type": rng.choice(["QEMU", "QEMU", "QEMU", "xen", "ironic"]),
        "hypervisor_version": rng.choice([0, 4002000, 5000001, 5002000, 6001000]),
        "host_ip": rng.choice(_HOST_ADDRESSES) if rng.chance(0.95) else None,
        "cpu_info": _random_cpu_info(rng),
        "supported_hv_specs": rng.sample(_SUPPORTED_HV_SPECS, 0 if rng.chance(0.05) else 1, 4),
        "vcpus": rng.choice([4, 8, 16, 64]),
        "vcpus_used": rng.choice([0, 1, 4, 20, 100]),
        "memory_mb": memory,
        "memory_mb_used": used,
        "free_ram_mb": memory - used,
        "local_gb": disk,
        "local_gb_used": disk_used,
        # None: the host has not sent a complete report.
        "free_disk_gb": disk - disk_used if rng.chance(0.985) else None,
        "disk_available_least": rng.choice([None, None, 0, -5, 30, 5000]),
        "cpu_allocation_ratio": rng.choice([1.0, 4.0, 16.0, 1.5, 0.1]),
        "ram_allocation_ratio": rng.choice([1.0, 1.5]),
        "disk_allocation_ratio": rng.choice([1.0, 2.0]),
        "stats": _random_stats(rng),
        "metrics": _random_metrics(rng),
        "pci_device_pools": [],
        "numa_topology": None,
    }


def _random_cpu_info(rng: RandomSource) -> str:
    info: JsonDocument = {
        "arch": rng.choice(["x86_64", "aarch64"]),
        "vendor": "Intel",
        "features": rng.sample(["avx", "avx2", "fpu", "aes"], 0),
        "topology": {"cores": rng.choice([2, 4, 10]), "threads": rng.choice([1, 2])},
    }
    if rng.chance(0.6):
        info["maxphysaddr"] = {"mode": "emulate", "bits": rng.choice([40, 42, 46])}
    return json.dumps(info) if rng.chance(0.9) else "{}"


def _random_stats(rng: RandomSource) -> JsonDocument:
    counted = {
        "num_instances": rng.choice([0, 1, 2, 5, 20, 50]),
        "io_workload": rng.choice([0, 0, 1, 2, 8]),
        "failed_builds": rng.choice([0, 0, 0, 1, 3]),
    }
    stats = {key: str(counted[key]) for key in rng.sample(sorted(counted), 1)}
    return stats | rng.draw_items(EXTRA_SPEC_VALUES, 0, 2)


def _random_metrics(rng: RandomSource) -> list[JsonDocument]:
    names = rng.sample(METRIC_NAMES, 0 if rng.chance(0.3) else 3)
    return [
        {
            "name": name,
            **_random_metric_values(rng, name),
            "source": "driver",
            "timestamp": NOW.isoformat(),
        }
        for name in names
    ]


def _random_metric_values(rng: RandomSource, name: str) -> JsonDocument:
    if name.startswith("numa.") and rng.chance(0.3):
        return {"numa_membw_values": {"0": rng.choice([0, 10]), "1": 43}}
    if name.endswith("percent") and rng.chance(0.5):
        return {"value": rng.choice([0.0, 0.01, 0.29, 0.5, 0.57, 1.0])}
    return {"value": rng.choice([0, 1, 10, 50, 100, 2400])}


def _random_service(rng: RandomSource) -> JsonDocument:
    disabled = rng.chance(0.1)
    silent = rng.choice([0, 0, 0, 10, 30, 59, 60, 61, 3600, -30, -3600])
    return {
        "disabled": disabled,
        "disabled_reason": "repair" if disabled and rng.chance(0.5) else None,
        "forced_down": rng.chance(0.05),
        "last_seen_up": (NOW - timedelta(seconds=silent)).isoformat(),
    }
