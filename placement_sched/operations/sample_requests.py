"""The requests of the demo: what each asks of the sample cloud, and what to look at."""

from dataclasses import dataclass
from typing import Any

from placement_sched.operations.sample_cloud import GPU_TRAIT, WINDOWS_TRAIT, uuid_of

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRequest:
    """A request spec (contract §4) with a title, a line on it, and a line on what to look at."""

    name: str
    title: str
    asks: str
    look_at: str
    spec: Json


def sample_requests() -> tuple[SampleRequest, ...]:
    """Return the requests in the order in which they are placed."""
    return (_plain(), _windows(), _gpu(), _ten(), _impossible())


def _plain() -> SampleRequest:
    return SampleRequest(
        name="plain",
        title="A plain Linux server",
        asks="2 vCPUs, 4 GiB, 40 GB of disk; the image is built for x86_64.",
        look_at="Each stage tells what it removed, and why, with one host for example.",
        spec=_spec("plain", _flavor("m.medium", 2, 4_096, 40), _LINUX),
    )


def _windows() -> SampleRequest:
    return SampleRequest(
        name="windows",
        title="A Windows server",
        asks=f"4 vCPUs, 8 GiB; the image has trait:{WINDOWS_TRAIT}=required.",
        look_at="The licensed-windows aggregate is open to it; only its hosts are left.",
        spec=_spec("windows", _flavor("m.large", 4, 8_192, 80), _WINDOWS),
    )


def _gpu() -> SampleRequest:
    extra_specs = {"resources:VGPU": "1", f"trait:{GPU_TRAIT}": "required"}
    return SampleRequest(
        name="gpu",
        title="A GPU worker",
        asks=f"The flavor has resources:VGPU=1 and trait:{GPU_TRAIT}=required.",
        look_at="VGPU removes hosts without GPUs, and those that have none free.",
        spec=_spec("gpu", _flavor("g.large", 8, 49_152, 160, extra_specs), _LINUX),
    )


def _ten() -> SampleRequest:
    extra_specs = {
        "trait:STORAGE_DISK_SSD": "required",
        "capabilities:hypervisor_version": ">= 6002000",
    }
    spec = _spec("ten", _flavor("r.2xlarge", 16, 65_536, 400, extra_specs), _LINUX, 10)
    return SampleRequest(
        name="ten",
        title="Ten database servers at once, all or none",
        asks="16 vCPUs and 64 GiB each, on SSD, in az2, with QEMU 6.2 or newer.",
        look_at="Each sees what those before it took, so they spread over many hosts.",
        spec=spec | {"availability_zone": "az2"},
    )


def _impossible() -> SampleRequest:
    extra_specs = {
        "trait:STORAGE_DISK_SSD": "required",
        "trait:HW_CPU_X86_AMD_SEV_SNP": "required",
    }
    return SampleRequest(
        name="impossible",
        title="One that cannot be: a confidential server",
        asks="32 vCPUs, 256 GiB, on SSD, its memory encrypted by AMD SEV-SNP.",
        look_at="The last line names the one constraint without which hosts would fit.",
        spec=_spec("impossible", _flavor("c.confidential", 32, 262_144, 500, extra_specs), _LINUX),
    )


_LINUX: Json = {
    "name": "debian-12",
    "disk_format": "qcow2",
    "container_format": "bare",
    "properties": {"os_type": "linux", "hw_architecture": "x86_64"},
}
_WINDOWS: Json = {
    "name": "windows-server-2022",
    "disk_format": "qcow2",
    "container_format": "bare",
    "properties": {
        "os_type": "windows",
        "hw_architecture": "x86_64",
        f"trait:{WINDOWS_TRAIT}": "required",
    },
}


def _flavor(
    name: str, vcpus: int, memory_mb: int, root_gb: int, extra_specs: dict[str, str] | None = None
) -> Json:
    return {
        "name": name,
        "vcpus": vcpus,
        "memory_mb": memory_mb,
        "root_gb": root_gb,
        "extra_specs": extra_specs or {},
    }


def _spec(name: str, flavor: Json, image: Json, count: int = 1) -> Json:
    return {
        "project_id": uuid_of("project"),
        "user_id": uuid_of("user"),
        "flavor": flavor,
        "image": image,
        "instance_uuids": [uuid_of(f"request/{name}/{number}") for number in range(1, count + 1)],
    }
