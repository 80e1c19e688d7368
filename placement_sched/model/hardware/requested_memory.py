"""Memory pages, locked memory, and memory that the host cannot read (AMD SEV, Intel TDX).

Sources: nova's documentation, "Huge pages", "AMD SEV (Secure Encrypted Virtualization)", "Intel
TDX" and "Extra Specs" (``hw:mem_page_size``, ``hw:locked_memory``, ``hw:mem_encryption*``).
"""

from dataclasses import dataclass
from functools import cached_property

from oslo_utils.strutils import string_to_bytes

from placement_sched.errors import Invalid
from placement_sched.model.hardware.flavor_image import FlavorImage, of_flavor, of_image, one_of
from placement_sched.model.hardware.numa import PAGES_ANY, PAGES_LARGE, PAGES_SMALL

_ENCRYPTION, _MODEL, _SIZE = "mem_encryption", "mem_encryption_model", "mem_page_size"
_WORDS = {"small": PAGES_SMALL, "large": PAGES_LARGE, "any": PAGES_ANY}


@dataclass(frozen=True, slots=True)
class EncryptionModel:
    """One way of encrypting memory, and what it needs beside its CPU's trait."""

    trait: str
    locks_memory: bool = False
    stateless_firmware: bool = False
    no_video: bool = False


#: By their names in extra spec and property; the first is the default.
_MODELS = {
    "amd-sev": EncryptionModel(trait="HW_CPU_X86_AMD_SEV", locks_memory=True),
    "amd-sev-es": EncryptionModel(trait="HW_CPU_X86_AMD_SEV_ES", locks_memory=True),
    "amd-sev-snp": EncryptionModel(trait="HW_CPU_X86_AMD_SEV_SNP", stateless_firmware=True),
    "intel-tdx": EncryptionModel("HW_CPU_X86_INTEL_TDX", stateless_firmware=True, no_video=True),
}


class RequestedMemory(FlavorImage):
    """What flavor and image request of memory, each value read once."""

    @cached_property
    def page_size(self) -> float | None:
        """Return the size of memory pages in KiB, a fraction where kilobits make one.

        The words ``small``, ``large`` and ``any`` are :data:`PAGES_SMALL` and the like; None where
        no size is set. An image may choose only where its flavor has ``large`` or ``any``.
        """
        by_flavor, by_image = self.values(_SIZE)
        size = _in_kib(by_flavor, of_flavor(_SIZE)) if by_flavor else None
        if not by_image:
            return size
        if size not in (PAGES_LARGE, PAGES_ANY):
            why = "an image may choose pages only where its flavor has 'large' or 'any'"
            raise self.conflict(_SIZE, why)
        return _in_kib(by_image, of_image(_SIZE))

    @cached_property
    def is_locked(self) -> bool | None:
        """Return whether memory is never swapped out; None where that is not set.

        Some encryption of memory needs it too; where it is set, a page size must be set as well.
        """
        locked = self.agreed_flag("locked_memory")
        if locked and not any(self.values(_SIZE)):
            where = self.source("locked_memory")
            raise Invalid(f"{where} needs a page size, set {of_flavor(_SIZE)}")
        if locked:
            return True
        return True if self.encryption and self.encryption.locks_memory else locked

    @cached_property
    def encryption(self) -> EncryptionModel | None:
        """Return the encryption of memory that is requested; None where none is.

        The image's firmware, machine type and video model must suit it.
        """
        if not self.agreed_flag(_ENCRYPTION):
            return None
        by_flavor, by_image = self.values(_MODEL)
        if by_flavor is not None and by_image is not None and by_flavor != by_image:
            raise self.conflict(_MODEL, "they must be equal")
        name = by_image or by_flavor or next(iter(_MODELS))
        model = _MODELS[one_of(name, _MODELS, self.source(_MODEL))]
        _check_image(self, model, f"{self.source(_ENCRYPTION)} requests {name}")
        return model


def _check_image(both: FlavorImage, model: EncryptionModel, requested: str) -> None:
    properties = both.image.properties
    machine = properties.get("hw_machine_type")
    if properties.get("hw_firmware_type") != "uefi":
        raise Invalid(f"{requested}: {of_image('firmware_type')} must be 'uefi'")
    if machine is not None and "q35" not in machine:
        raise Invalid(f"{requested}: {of_image('machine_type')} must be a q35, not {machine!r}")
    if model.stateless_firmware and not both.has_stateless_firmware:
        raise Invalid(f"{requested}: {of_image('firmware_stateless')} must be true")
    if model.no_video and properties.get("hw_video_model") != "none":
        raise Invalid(f"{requested}: {of_image('video_model')} must be 'none'")


def _in_kib(text: str, where: str) -> float:
    """Return the size of a text: a word, a number of KiB, or a number with a unit."""
    if text in _WORDS:
        return _WORDS[text]
    try:
        return int(text) if text.isdigit() else string_to_bytes(text, return_int=True) / 1024
    except (ValueError, OverflowError):
        raise Invalid(
            f"{where}: expected small, large, any, KiB or a size with a unit, got {text!r}"
        ) from None
