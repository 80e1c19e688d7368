"""Memory that the host cannot read: AMD SEV, its successors, and Intel TDX.

Sources: nova's documentation, "AMD SEV (Secure Encrypted Virtualization)", "Intel TDX" and
"Extra Specs" (``hw:mem_encryption``, ``hw:mem_encryption_model``).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from placement_sched.errors import Invalid
from placement_sched.model.flavor import Flavor
from placement_sched.model.image import Image
from placement_sched.scheduler.hardware.both import (
    agreed_flag,
    conflict,
    of_image,
    one_of,
    place,
    said,
)
from placement_sched.scheduler.hardware.firmware import needs_stateless_firmware

_FLAG, _MODEL = "mem_encryption", "mem_encryption_model"


@dataclass(frozen=True, slots=True, kw_only=True)
class EncryptionModel:
    """One way of encrypting memory, and what it needs beside its CPU's trait."""

    trait: str
    locks_memory: bool = False
    stateless_firmware: bool = False
    no_video: bool = False


#: By the name that extra spec and property have for it; the first is the default.
MODELS: Mapping[str, EncryptionModel] = MappingProxyType(
    {
        "amd-sev": EncryptionModel(trait="HW_CPU_X86_AMD_SEV", locks_memory=True),
        "amd-sev-es": EncryptionModel(trait="HW_CPU_X86_AMD_SEV_ES", locks_memory=True),
        "amd-sev-snp": EncryptionModel(trait="HW_CPU_X86_AMD_SEV_SNP", stateless_firmware=True),
        "intel-tdx": EncryptionModel(
            trait="HW_CPU_X86_INTEL_TDX", stateless_firmware=True, no_video=True
        ),
    }
)


def encryption_trait(flavor: Flavor, image: Image) -> str | None:
    """Return the trait of the encryption that is asked for; None where none is.

    Raises :class:`Invalid` where flavor and image contradict each other, or where the image's
    firmware, machine type or video model does not go with the encryption.
    """
    model = encryption_model(flavor, image)
    return None if model is None else model.trait


def encryption_model(flavor: Flavor, image: Image) -> EncryptionModel | None:
    """Return the encryption that is asked for; None where none is. Raises as its trait does."""
    if not agreed_flag(flavor, image, _FLAG):
        return None
    by_flavor, by_image = said(flavor, image, _MODEL)
    if by_flavor is not None and by_image is not None and by_flavor != by_image:
        raise conflict(flavor, image, _MODEL, "they must say the same")
    name = by_image or by_flavor or next(iter(MODELS))
    model = MODELS[one_of(name, MODELS, place(flavor, image, _MODEL))]
    _check(image, model, f"{place(flavor, image, _FLAG)} asks for {name}")
    return model


def _check(image: Image, model: EncryptionModel, asked: str) -> None:
    """Raise :class:`Invalid` where the image is not one whose memory can be so encrypted."""
    properties = image.properties
    machine = properties.get("hw_machine_type")
    if properties.get("hw_firmware_type") != "uefi":
        raise Invalid(f"{asked}: {of_image('firmware_type')} must be 'uefi'")
    if machine is not None and "q35" not in machine:
        raise Invalid(f"{asked}: {of_image('machine_type')} must be a q35, not {machine!r}")
    if model.stateless_firmware and not needs_stateless_firmware(image):
        raise Invalid(f"{asked}: {of_image('firmware_stateless')} must be true")
    if model.no_video and properties.get("hw_video_model") != "none":
        raise Invalid(f"{asked}: {of_image('video_model')} must be 'none'")
