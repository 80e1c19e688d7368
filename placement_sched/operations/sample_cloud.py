"""The sample cloud of the demo: 300 hosts in three zones, the same at every call.

Hosts are named zone, rack, kind and number, like ``az2-r03-ssd07``, so that a reader of an
explanation sees what a host is.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from random import Random
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from placement_sched.model.inventory import Inventory
from placement_sched.operations.cloud import Aggregate, Cloud, Running

Json = dict[str, Any]

ZONES = ("az1", "az2", "az3")
#: A rack on which no memory is left.
FULL_RACK = "az2-r03"
#: A host that stopped reporting, and for how long it has been silent.
SILENT_HOST = "az1-r03-ssd07"
SILENCE = timedelta(days=30)
#: A host whose compute service is disabled, and why.
DISABLED_HOST = "az3-r05-epyc02"
DISABLED_REASON = "replacing a faulty DIMM"

WINDOWS_TRAIT = "CUSTOM_LICENSED_WINDOWS"
GPU_TRAIT = "CUSTOM_GPU_A100"

_X86 = frozenset({"HW_CPU_X86_AVX", "HW_CPU_X86_AVX2"})
_AVX512 = _X86 | {"HW_CPU_X86_AVX512F", "HW_CPU_X86_AVX512VNNI"}
_SSD = "STORAGE_DISK_SSD"
#: Memory that each host keeps for itself, in MB.
_RESERVED_MB = 8192
_SEED = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One generation of hardware: what each host is, and in which racks of a zone how many are."""

    kind: str
    about: str
    racks: tuple[int, ...]
    per_rack: int
    model: str
    vcpus: int
    memory_mb: int
    local_gb: int
    traits: frozenset[str]
    hypervisor_version: int = 6_002_000
    arch: str = "x86_64"
    vgpus: int = 0


_SSD_RACK = Generation(
    kind="ssd",
    about="80 threads, 512 GiB, 3.8 TB SSD",
    racks=(3,),
    per_rack=16,
    model="Cascadelake-Server",
    vcpus=80,
    memory_mb=524_288,
    local_gb=3_840,
    traits=_AVX512 | {_SSD},
)

GENERATIONS = (
    Generation(
        kind="hdd",
        about="56 threads, 256 GiB, 12 TB spinning disk",
        racks=(1, 2),
        per_rack=16,
        model="Broadwell-IBRS",
        vcpus=56,
        memory_mb=262_144,
        local_gb=12_000,
        traits=_X86 | {"STORAGE_DISK_HDD"},
        hypervisor_version=4_002_001,
    ),
    _SSD_RACK,
    replace(
        _SSD_RACK,
        about="the same, with an older hypervisor",
        racks=(4,),
        hypervisor_version=4_002_001,
    ),
    Generation(
        kind="epyc",
        about="256 threads, 1 TiB, 7.7 TB SSD",
        racks=(5,),
        per_rack=12,
        model="EPYC-Rome",
        vcpus=256,
        memory_mb=1_048_576,
        local_gb=7_680,
        traits=_X86 | {"HW_CPU_X86_AMD_SEV", _SSD},
        hypervisor_version=8_002_002,
    ),
    replace(
        _SSD_RACK,
        kind="win",
        about="as ssd, licensed for Windows",
        racks=(6,),
        per_rack=12,
        traits=_SSD_RACK.traits | {WINDOWS_TRAIT},
    ),
    replace(
        _SSD_RACK,
        kind="gpu",
        about="as ssd, with 8 virtual GPUs (A100)",
        racks=(7,),
        per_rack=4,
        traits=_SSD_RACK.traits | {GPU_TRAIT},
        vgpus=8,
    ),
    Generation(
        kind="arm",
        about="160 cores (aarch64), 512 GiB, 3.8 TB SSD",
        racks=(8,),
        per_rack=8,
        model="Neoverse-N1",
        vcpus=160,
        memory_mb=524_288,
        local_gb=3_840,
        traits=frozenset({_SSD}),
        arch="aarch64",
    ),
)


@dataclass(frozen=True, slots=True)
class _Size:
    """A flavor of the instances that run already: virtual CPUs, memory in MB, disk in GB."""

    name: str
    vcpus: int
    memory_mb: int
    root_gb: int
    vgpus: int = 0


_SIZES = (
    _Size("r.2xlarge", 16, 65_536, 400),
    _Size("r.xlarge", 8, 32_768, 200),
    _Size("m.xlarge", 8, 16_384, 160),
    _Size("m.large", 4, 8_192, 80),
)
_GPU_SIZE = _Size("g.large", 8, 49_152, 160, vgpus=1)


@dataclass(frozen=True, slots=True)
class _Host:
    name: str
    zone: str
    rack: str
    hardware: Generation
    load: tuple[_Size, ...]


def uuid_of(name: str) -> str:
    """Return the uuid of the sample cloud's thing of this name, the same at every call."""
    return str(uuid5(NAMESPACE_URL, f"placement-sched:demo/{name}"))


def sample_cloud(now: datetime) -> Cloud:
    """Return the cloud, its hosts heard of just ``now``, but for the silent one."""
    hosts = tuple(_hosts(Random(_SEED)))  # noqa: S311 - makes up instances, the same every time
    return Cloud(
        reports=tuple(_report(host, now) for host in hosts),
        traits={host.name: host.hardware.traits for host in hosts},
        inventories={
            host.name: (_vgpus(host.hardware.vgpus),) for host in hosts if host.hardware.vgpus
        },
        aggregates=(
            *(_zone(zone, hosts) for zone in ZONES),
            _reserved("licensed-windows", "win", WINDOWS_TRAIT, hosts),
            _reserved("gpu", "gpu", GPU_TRAIT, hosts),
        ),
        running=tuple(instance for host in hosts for instance in _running(host)),
        disabled={DISABLED_HOST: DISABLED_REASON},
    )


def _hosts(random: Random) -> Iterator[_Host]:
    for zone in ZONES:
        for hardware in GENERATIONS:
            for number in hardware.racks:
                rack = f"{zone}-r{number:02}"
                for place in range(1, hardware.per_rack + 1):
                    load = _full(hardware) if rack == FULL_RACK else _some(hardware, random)
                    yield _Host(f"{rack}-{hardware.kind}{place:02}", zone, rack, hardware, load)


def _full(hardware: Generation) -> tuple[_Size, ...]:
    """Return instances that take all memory, the largest first."""
    left = hardware.memory_mb - _RESERVED_MB
    load: list[_Size] = []
    for size in _SIZES:
        count, left = divmod(left, size.memory_mb)
        load += [size] * count
    return tuple(load)


def _some(hardware: Generation, random: Random) -> tuple[_Size, ...]:
    """Return instances that take some part of the memory, or some of the virtual GPUs."""
    if hardware.vgpus:
        return (_GPU_SIZE,) * random.randint(3, hardware.vgpus)
    wanted = random.uniform(0.2, 0.7) * hardware.memory_mb
    load: list[_Size] = []
    while sum(size.memory_mb for size in load) < wanted:
        load.append(random.choice(_SIZES))
    return tuple(load)


def _report(host: _Host, now: datetime) -> Json:
    """Return what a host sends, as of ``now``, or of its last sign of life."""
    hardware = host.hardware
    seen = now - SILENCE if host.name == SILENT_HOST else now
    return {
        "uuid": uuid_of(host.name),
        "host": host.name,
        "hypervisor_hostname": host.name,
        "hypervisor_type": "QEMU",
        "hypervisor_version": hardware.hypervisor_version,
        "cpu_info": {"arch": hardware.arch, "model": hardware.model},
        "supported_hv_specs": [[hardware.arch, "kvm", "hvm"]],
        "vcpus": hardware.vcpus,
        "vcpus_used": sum(size.vcpus for size in host.load),
        "memory_mb": hardware.memory_mb,
        "memory_mb_used": _RESERVED_MB + sum(size.memory_mb for size in host.load),
        "local_gb": hardware.local_gb,
        "local_gb_used": sum(size.root_gb for size in host.load),
        "reserved": {"MEMORY_MB": _RESERVED_MB},
        "stats": {"num_instances": len(host.load)},
        "last_seen_up": f"{seen.isoformat()}Z",
    }


def _vgpus(total: int) -> Inventory:
    return Inventory(resource_class="VGPU", total=total, max_unit=total)


def _zone(zone: str, hosts: tuple[_Host, ...]) -> Aggregate:
    return Aggregate(
        uuid=uuid_of(zone),
        name=zone,
        hosts=tuple(host.name for host in hosts if host.zone == zone),
        metadata={"availability_zone": zone},
    )


def _reserved(name: str, kind: str, trait: str, hosts: tuple[_Host, ...]) -> Aggregate:
    """Return an aggregate of the hosts of a kind, kept for requests that require their trait."""
    return Aggregate(
        uuid=uuid_of(name),
        name=name,
        hosts=tuple(host.name for host in hosts if host.hardware.kind == kind),
        metadata={f"trait:{trait}": "required"},
    )


def _running(host: _Host) -> Iterator[Running]:
    for number, size in enumerate(host.load, start=1):
        amounts = {
            "VCPU": size.vcpus,
            "MEMORY_MB": size.memory_mb,
            "DISK_GB": size.root_gb,
            "VGPU": size.vgpus,
        }
        yield Running(
            uuid=uuid_of(f"{host.name}/{number}"),
            host=host.name,
            project_id=uuid_of("residents"),
            user_id=uuid_of("resident"),
            flavor={
                "name": size.name,
                "vcpus": size.vcpus,
                "memory_mb": size.memory_mb,
                "root_gb": size.root_gb,
            },
            resources={name: amount for name, amount in amounts.items() if amount},
        )
