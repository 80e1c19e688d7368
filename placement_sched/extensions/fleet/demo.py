# SPDX-License-Identifier: Apache-2.0
"""Demo of the scheduler on a sample cloud in its own database."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, asdict, dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from types import MappingProxyType
from uuid import NAMESPACE_URL, uuid5

from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Database
from placement_sched.errors import Invalid, NoValidHost
from placement_sched.explain.values import EVERYTHING
from placement_sched.model.clock import Clock
from placement_sched.model.document import Json
from placement_sched.operations.fleet.load import load
from placement_sched.operations.prepare import sync
from placement_sched.scheduler.caches import ProcessCaches
from placement_sched.scheduler.plugins import make_full_conf
from placement_sched.scheduler.scheduler import Scheduler

ZONES = ("az1", "az2", "az3")
#: A rack without free memory.
FULL_RACK = "az2-r03"
#: A host that stopped reporting, and the time since its last report.
SILENT_HOST = "az1-r03-ssd07"
SILENCE = timedelta(days=30)
#: A host whose compute service is disabled, and the reason.
DISABLED_HOST = "az3-r05-epyc02"
DISABLED_REASON = "replacing a faulty DIMM"
WINDOWS_TRAIT = "CUSTOM_LICENSED_WINDOWS"
GPU_TRAIT = "CUSTOM_GPU_A100"
_X86 = ("HW_CPU_X86_AVX", "HW_CPU_X86_AVX2")
_SSD = "STORAGE_DISK_SSD"
#: Memory that each host reserves for itself, in MB.
_RESERVED_MB = 8192
_SEED = 7


@dataclass(frozen=True, slots=True)
class HardwareGeneration:
    """A generation of hardware, with sizes and numbers of its hosts.

    ``racks`` maps the number of each rack, as in its name, to its count of hosts of this
    generation. All zones have the same racks.
    """

    kind: str
    about: str
    racks: Mapping[int, int]
    hypervisor_version: int = 6_002_000
    _: KW_ONLY
    model: str
    vcpus: int
    memory_mb: int
    local_gb: int
    traits: frozenset[str]
    arch: str = "x86_64"
    vgpus: int = 0


def _define_hardware(
    model: str, vcpus: int, memory_mb: int, local_gb: int, *traits: str, **others: str
) -> Callable[..., HardwareGeneration]:
    values: Json = {"vcpus": vcpus, "memory_mb": memory_mb, "local_gb": local_gb, **others}
    return partial(HardwareGeneration, model=model, traits=frozenset(traits), **values)


_AVX512 = (*_X86, "HW_CPU_X86_AVX512F", "HW_CPU_X86_AVX512VNNI", _SSD)
_SSD_SIZES = ("Cascadelake-Server", 80, 524_288, 3_840)
_HDD_HOST = _define_hardware("Broadwell-IBRS", 56, 262_144, 12_000, *_X86, "STORAGE_DISK_HDD")
_SSD_HOST = _define_hardware(*_SSD_SIZES, *_AVX512)
_EPYC_HOST = _define_hardware("EPYC-Rome", 256, 1_048_576, 7_680, *_X86, "HW_CPU_X86_AMD_SEV", _SSD)
_WINDOWS_HOST = _define_hardware(*_SSD_SIZES, *_AVX512, WINDOWS_TRAIT)
_GPU_HOST = _define_hardware(*_SSD_SIZES, *_AVX512, GPU_TRAIT)
_ARM_HOST = _define_hardware("Neoverse-N1", 160, 524_288, 3_840, _SSD, arch="aarch64")
#: Versions of QEMU before 6.2 and after it.
_OLD, _NEW = 4_002_001, 8_002_002
_HDD_RACKS = {1: 16, 2: 16}

GENERATIONS = (
    _HDD_HOST("hdd", "56 threads, 256 GiB, 12 TB spinning disk", _HDD_RACKS, _OLD),
    _SSD_HOST("ssd", "80 threads, 512 GiB, 3.8 TB SSD", {3: 16}),
    _SSD_HOST("ssd", "the same, with an older hypervisor", {4: 16}, _OLD),
    _EPYC_HOST("epyc", "256 threads, 1 TiB, 7.7 TB SSD", {5: 12}, _NEW),
    _WINDOWS_HOST("win", "as ssd, licensed for Windows", {6: 12}),
    _GPU_HOST("gpu", "as ssd, with 8 virtual GPUs (A100)", {7: 4}, vgpus=8),
    _ARM_HOST("arm", "160 cores (aarch64), 512 GiB, 3.8 TB SSD", {8: 8}),
)


@dataclass(frozen=True, slots=True)
class _Size:
    """Flavor of sample instances, with memory in MB and disk in GB."""

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
    hardware: HardwareGeneration
    load: tuple[_Size, ...]


def derive_uuid(name: str) -> str:
    """Derive the uuid of an object of the sample cloud from its name."""
    return str(uuid5(NAMESPACE_URL, f"placement-sched:demo/{name}"))


def sample_cloud(now: datetime) -> Json:
    """Build the sample cloud as a fleet document.

    The last report of :data:`SILENT_HOST` is :data:`SILENCE` old. All other reports are from
    ``now``.
    """
    hosts = tuple(_iterate_hosts(Random(_SEED)))  # noqa: S311 - generates the same instances every time
    aggregates = [
        *((zone, zone, {"availability_zone": zone}) for zone in ZONES),
        ("licensed-windows", "win", {f"trait:{WINDOWS_TRAIT}": "required"}),
        ("gpu", "gpu", {f"trait:{GPU_TRAIT}": "required"}),
    ]
    return {
        "aggregates": [
            {
                "name": name,
                "uuid": derive_uuid(name),
                "metadata": metadata,
                "hosts": [
                    host.name for host in hosts if zone_or_kind in {host.zone, host.hardware.kind}
                ],
            }
            for name, zone_or_kind, metadata in aggregates
        ],
        "hosts": [_report(host, now) for host in hosts],
        "services": [
            {"host": DISABLED_HOST, "status": "disabled", "disabled_reason": DISABLED_REASON}
        ],
        "instances": [instance for host in hosts for instance in _iterate_instances(host)],
    }


def _iterate_hosts(random: Random) -> Iterator[_Host]:
    for zone in ZONES:
        for hardware in GENERATIONS:
            for number, places in hardware.racks.items():
                rack = f"{zone}-r{number:02}"
                for place in range(1, places + 1):
                    load = (
                        _fill_host(hardware) if rack == FULL_RACK else _load_host(hardware, random)
                    )
                    yield _Host(f"{rack}-{hardware.kind}{place:02}", zone, hardware, load)


def _fill_host(hardware: HardwareGeneration) -> tuple[_Size, ...]:
    """List instances that use all memory of a host, largest first."""
    remaining_mb = hardware.memory_mb - _RESERVED_MB
    load: list[_Size] = []
    for size in _SIZES:
        count, remaining_mb = divmod(remaining_mb, size.memory_mb)
        load += [size] * count
    return tuple(load)


def _load_host(hardware: HardwareGeneration, random: Random) -> tuple[_Size, ...]:
    if hardware.vgpus:
        return (_GPU_SIZE,) * random.randint(3, hardware.vgpus)
    load_mb = random.uniform(0.2, 0.7) * hardware.memory_mb
    load: list[_Size] = []
    while sum(size.memory_mb for size in load) < load_mb:
        load.append(random.choice(_SIZES))
    return tuple(load)


def _report(host: _Host, now: datetime) -> Json:
    hardware = host.hardware
    last_seen = now - SILENCE if host.name == SILENT_HOST else now
    vgpus = {"total": hardware.vgpus, "max_unit": hardware.vgpus}
    return {
        "uuid": derive_uuid(host.name),
        "host": host.name,
        "node": host.name,
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
        "last_seen_up": f"{last_seen.isoformat()}Z",
        "traits": sorted(hardware.traits),
        **({"inventories": {"VGPU": vgpus}} if hardware.vgpus else {}),
    }


def _iterate_instances(host: _Host) -> Iterator[Json]:
    for number, size in enumerate(host.load, start=1):
        uuid, flavor = derive_uuid(f"{host.name}/{number}"), asdict(size)
        amounts = {
            "VCPU": size.vcpus,
            "MEMORY_MB": size.memory_mb,
            "DISK_GB": size.root_gb,
            "VGPU": flavor.pop("vgpus"),
        }
        if size.vgpus:
            flavor["extra_specs"] = dict(_ON_GPU)
        yield {
            "uuid": uuid,
            "name": f"{size.name}-{uuid[:8]}",
            "host": host.name,
            "project": derive_uuid("residents"),
            "user": derive_uuid("resident"),
            "flavor": flavor,
            "allocations": {host.name: {name: used for name, used in amounts.items() if used}},
        }


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """A request spec with title, description and a hint about its explanation."""

    name: str
    title: str
    description: str
    hint: str
    spec: Json


def _build_image(name: str, os_type: str, **traits: str) -> Json:
    return {
        "name": name,
        "disk_format": "qcow2",
        "container_format": "bare",
        "properties": {"os_type": os_type, "hw_architecture": "x86_64", **traits},
    }


_LINUX = _build_image("debian-12", "linux")
_WINDOWS = _build_image("windows-server-2022", "windows", **{f"trait:{WINDOWS_TRAIT}": "required"})


def _build_spec(
    name: str,
    flavor: tuple[str, int, int, int],
    extra_specs: Mapping[str, str] = MappingProxyType({}),
    image: Json = _LINUX,
    count: int = 1,
) -> Json:
    """Build a request spec for a flavor (name, vCPUs, MB memory, GB disk)."""
    sizes = zip(("name", "vcpus", "memory_mb", "root_gb"), flavor, strict=True)
    return {
        "project_id": derive_uuid("project"),
        "user_id": derive_uuid("user"),
        "flavor": {**dict(sizes), "extra_specs": dict(extra_specs)},
        "image": image,
        "instance_uuids": [derive_uuid(f"request/{name}/{n}") for n in range(1, count + 1)],
    }


_ON_SSD = {"trait:STORAGE_DISK_SSD": "required"}
_TEN = _build_spec(
    "ten",
    ("r.2xlarge", 16, 65_536, 400),
    _ON_SSD | {"capabilities:hypervisor_version": ">= 6002000"},
    count=10,
)
_ENCRYPTED = _ON_SSD | {"trait:HW_CPU_X86_AMD_SEV_ES": "required"}
_ON_GPU = {"resources:VGPU": "1", f"trait:{GPU_TRAIT}": "required"}
#: The requests in the order of their placement.
REQUESTS = (
    SampleRequest(
        "plain",
        "A plain Linux server",
        "2 vCPUs, 4 GiB, 40 GB of disk, with an image built for x86_64.",
        "Each stage shows how many hosts it rejected and why, with an example.",
        _build_spec("plain", ("m.medium", 2, 4_096, 40)),
    ),
    SampleRequest(
        "windows",
        "A Windows server",
        f"4 vCPUs, 8 GiB, image with trait:{WINDOWS_TRAIT}=required.",
        "The licensed-windows aggregate is open to it, so only its hosts remain.",
        _build_spec("windows", ("m.large", 4, 8_192, 80), image=_WINDOWS),
    ),
    SampleRequest(
        "gpu",
        "A GPU worker",
        f"The flavor has resources:VGPU=1 and trait:{GPU_TRAIT}=required.",
        "VGPU rejects hosts without GPUs, and hosts without a free GPU.",
        _build_spec("gpu", ("g.large", 8, 49_152, 160), _ON_GPU),
    ),
    SampleRequest(
        "ten",
        "Ten database servers at once, all or none",
        "16 vCPUs and 64 GiB each, on SSD, in az2, with QEMU 6.2 or newer.",
        "Each claim leaves less for the next, so they spread over many hosts.",
        _TEN | {"availability_zone": "az2"},
    ),
    SampleRequest(
        "impossible",
        "A request without a valid host: a confidential server",
        "32 vCPUs, 256 GiB, on SSD, its memory encrypted by AMD SEV-ES.",
        "The last line names the only constraint that keeps hosts from fitting.",
        _build_spec("impossible", ("c.confidential", 32, 262_144, 500), _ENCRYPTED),
    ),
)

DATABASE_NAME = "placement_sched.db"
CONFIG_NAME = "demo.conf"
#: The hosts of the demo report only once and count as up for this time. It is less than
#: :data:`SILENCE`, so that the silent host is down.
_UP_FOR = timedelta(days=7)
_CONFIG = """\
# The sample cloud of placement-sched demo.

[DEFAULT]
# Its hosts report only once, so they count as up for a week.
service_down_time = {up_for}

[placement_database]
connection = sqlite:///{database}

[scheduler]
# Keep aggregates with metadata trait:X=required for requests that require X.
enable_isolated_aggregate_filtering = true
"""


@dataclass(frozen=True, slots=True)
class DemoPlacement:
    """The result of a request: its explanation and its claimed selections.

    ``selected`` has the selection of each instance, with its uuid as ``instance``. If it is empty,
    ``rejection`` is the reason.
    """

    request: SampleRequest
    explanation: Json
    selected: tuple[Json, ...] = ()
    rejection: str | None = None


@dataclass(frozen=True, slots=True)
class Demo:
    """The sample cloud, and a scheduler of its database.

    ``cloud`` is a fleet document, the parsed content of a fleet file (doc/source/fleet.rst).
    """

    cloud: Json
    scheduler: Scheduler

    def place(self, request: SampleRequest) -> DemoPlacement:
        """Explain a request, then place it, on the same state of the cloud."""
        explanation = self.scheduler.explain(request.spec, view=EVERYTHING).explanation
        try:
            result = self.scheduler.select_destinations(request.spec)
        except NoValidHost as error:
            return DemoPlacement(request, explanation, rejection=error.detail)
        pairs = zip(request.spec["instance_uuids"], result.selections, strict=True)
        selected = tuple({"instance": uuid, **best.as_json()} for uuid, (best, *_) in pairs)
        return DemoPlacement(request, explanation, selected)


@contextmanager
def open_demo(directory: Path, clock: Clock, random: Random) -> Iterator[Demo]:
    """Create a demo, with database and configuration file in ``directory``.

    No other configuration is read. Raises :class:`Invalid` if the directory already has a demo, is
    not writable, or has a name that is not allowed in a database URL.
    """
    conf, file = make_full_conf(), str(_write_config(directory))
    conf(args=[], default_config_files=[file], default_config_dirs=[], use_env=False)
    settings = Settings.from_conf(conf)
    with Database(settings) as database:
        now = clock()
        cloud = sample_cloud(now) | {
            "flavors": [request.spec["flavor"] for request in REQUESTS],
            "images": [_LINUX, _WINDOWS],
        }
        sync(database, clock)
        database.write(lambda connection: load(connection, cloud, settings, now))
        scheduler = Scheduler(
            database=database, settings=settings, clock=clock, random=random, caches=ProcessCaches()
        )
        yield Demo(cloud, scheduler)


def _write_config(directory: Path) -> Path:
    database, config = directory / DATABASE_NAME, directory / CONFIG_NAME
    for path in (database, config):
        if path.exists():
            raise Invalid(f"{path} already exists. Use another directory, or remove it")
    url = str(database.resolve())
    if "?" in url or not url.isprintable():
        raise Invalid(f"{directory}: '?' and control characters are not allowed in a database URL")
    text = _CONFIG.format(
        up_for=int(_UP_FOR.total_seconds()),
        # oslo.config reads a single $ as a reference to another option.
        database=url.replace("$", "$$"),
    )
    try:
        config.write_text(text, encoding="utf-8")
    except OSError as failure:
        raise Invalid(f"{config}: {failure.strerror}") from None
    return config
