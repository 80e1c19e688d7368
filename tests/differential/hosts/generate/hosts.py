# SPDX-License-Identifier: Apache-2.0
"""Random reports of hosts and states of their services."""

import json
from datetime import timedelta
from typing import Any

from tests.differential.generate.dice import Dice
from tests.differential.hosts.case import NOW
from tests.differential.hosts.generate.pools import CELLS, METRICS, NODES, SPECS
from tests.support.clouds import uuid_of

Document = dict[str, Any]

_HV_SPECS = (
    ["x86_64", "kvm", "hvm"], ["i686", "kvm", "hvm"], ["x86_64", "qemu", "hvm"],
    ["aarch64", "kvm", "hvm"], ["x86_64", "xen", "xen"], ["x86_64", "xen", "hvm"],
    ["x86_64", "ironic", "hvm"], ["x86_64", "uml", "uml"], ["x86_64", "lxc", "exe"],
    ["ppc64le", "qemu", "hvm"],
)  # fmt: skip
_ADDRESSES = ("10.0.0.1", "10.0.0.9", "10.0.1.7", "192.168.3.4", "fd00::1", "fd00::ffff:1")


def random_hosts(dice: Dice) -> tuple[Document, ...]:
    chosen = dice.sample(NODES, 1 if dice.chance(0.1) else 3, 7)
    usual = _random_report(dice, *NODES[0])
    return tuple(
        {
            "report": _copy_some_values(dice, usual, _random_report(dice, *node)),
            "service": _random_service(dice),
        }
        for node in chosen
    )


def _copy_some_values(dice: Dice, usual: Document, own: Document) -> Document:
    shared = dice.sample(sorted(set(usual) - {"uuid", "host", "hypervisor_hostname"}), 0)
    return {**own, **{key: usual[key] for key in shared if dice.chance(0.7)}}


def _random_report(dice: Dice, host: str, node: str) -> Document:
    memory, disk = dice.choice([4096, 16384, 65536, 131072]), dice.choice([40, 500, 2000])
    used, disk_used = dice.choice([0, 512, 4096, 20000]), dice.choice([0, 10, 100])
    return {
        "uuid": uuid_of(node),
        "host": host,
        "hypervisor_hostname": node,
        "cell_uuid": dice.choice(CELLS),
        "hypervisor_type": dice.choice(["QEMU", "QEMU", "QEMU", "xen", "ironic"]),
        "hypervisor_version": dice.choice([0, 4002000, 5000001, 5002000, 6001000]),
        "host_ip": dice.choice(_ADDRESSES) if dice.chance(0.95) else None,
        "cpu_info": _random_cpu_info(dice),
        "supported_hv_specs": dice.sample(_HV_SPECS, 0 if dice.chance(0.05) else 1, 4),
        "vcpus": dice.choice([4, 8, 16, 64]),
        "vcpus_used": dice.choice([0, 1, 4, 20, 100]),
        "memory_mb": memory,
        "memory_mb_used": used,
        "free_ram_mb": memory - used,
        "local_gb": disk,
        "local_gb_used": disk_used,
        # None: the host has not sent a complete report.
        "free_disk_gb": disk - disk_used if dice.chance(0.985) else None,
        "disk_available_least": dice.choice([None, None, 0, -5, 30, 5000]),
        "cpu_allocation_ratio": dice.choice([1.0, 4.0, 16.0, 1.5, 0.1]),
        "ram_allocation_ratio": dice.choice([1.0, 1.5]),
        "disk_allocation_ratio": dice.choice([1.0, 2.0]),
        "stats": _random_stats(dice),
        "metrics": _random_metrics(dice),
        "pci_device_pools": [],
        "numa_topology": None,
    }


def _random_cpu_info(dice: Dice) -> str:
    info: Document = {
        "arch": dice.choice(["x86_64", "aarch64"]),
        "vendor": "Intel",
        "features": dice.sample(["avx", "avx2", "fpu", "aes"], 0),
        "topology": {"cores": dice.choice([2, 4, 10]), "threads": dice.choice([1, 2])},
    }
    if dice.chance(0.6):
        info["maxphysaddr"] = {"mode": "emulate", "bits": dice.choice([40, 42, 46])}
    return json.dumps(info) if dice.chance(0.9) else "{}"


def _random_stats(dice: Dice) -> Document:
    counted = {
        "num_instances": dice.choice([0, 1, 2, 5, 20, 50]),
        "io_workload": dice.choice([0, 0, 1, 2, 8]),
        "failed_builds": dice.choice([0, 0, 0, 1, 3]),
    }
    stats = {key: str(counted[key]) for key in dice.sample(sorted(counted), 1)}
    stats |= {key: dice.choice(SPECS[key]) for key in dice.sample(sorted(SPECS), 0, 2)}
    return stats


def _random_metrics(dice: Dice) -> list[Document]:
    names = dice.sample(METRICS, 0 if dice.chance(0.3) else 3)
    return [
        {
            "name": name,
            **_random_metric_values(dice, name),
            "source": "driver",
            "timestamp": NOW.isoformat(),
        }
        for name in names
    ]


def _random_metric_values(dice: Dice, name: str) -> Document:
    if name.startswith("numa.") and dice.chance(0.3):
        return {"numa_membw_values": {"0": dice.choice([0, 10]), "1": 43}}
    if name.endswith("percent") and dice.chance(0.5):
        return {"value": dice.choice([0.0, 0.01, 0.29, 0.5, 0.57, 1.0])}
    return {"value": dice.choice([0, 1, 10, 50, 100, 2400])}


def _random_service(dice: Dice) -> Document:
    disabled = dice.chance(0.1)
    silent = dice.choice([0, 0, 0, 10, 30, 59, 60, 61, 3600, -30, -3600])
    return {
        "disabled": disabled,
        "disabled_reason": "repair" if disabled and dice.chance(0.5) else None,
        "forced_down": dice.chance(0.05),
        "last_seen_up": (NOW - timedelta(seconds=silent)).isoformat(),
    }
