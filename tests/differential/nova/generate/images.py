# SPDX-License-Identifier: Apache-2.0
"""Random image properties that have no equivalent extra spec."""

from tests.differential.generate.random_values import RandomSource
from tests.differential.nova.generate.draft import TRAITS, RequestDraft

IMAGE_UUID = "1a1a1a1a-0000-4000-8000-000000000001"
_DISK_FORMATS = (
    "qcow2",
    "raw",
    "vmdk",
    "iso",
    "ami",
    "vhd",
    "vhdx",
    "vdi",
    "ploop",
    "aki",
    "gluster",
)

#: Properties that nova translates into traits if ``image_metadata_prefilter`` is set.
_VALUES_OF_DEVICE_PROPERTIES = {
    "hw_cdrom_bus": ("ide", "sata", "scsi", "virtio"),
    "hw_disk_bus": ("virtio", "scsi", "sata", "ide", "usb", "fdc", "lxc", "xen", "uml"),
    "hw_video_model": ("virtio", "qxl", "vga", "cirrus", "none", "bochs", "gop", "vmvga"),
    "hw_vif_model": ("virtio", "e1000", "e1000e", "rtl8139", "pcnet", "VirtualE1000", "igb"),
    "hw_architecture": ("x86_64", "aarch64", "ppc64le", "i686", "s390x", "armv7l", "amd64"),
    "hw_emulation_architecture": ("aarch64", "x86_64", "mips64", "riscv64"),
    "hw_viommu_model": ("intel", "smmuv3", "virtio", "auto"),
    "architecture": ("x86_64", "aarch64"),
    "vmware_adaptertype": ("ide", "lsiLogic"),
}
_FURTHER_IMAGE_PROPERTIES = {
    "os_type": "linux",
    "hw_rng_model": "virtio",
    "hw_qemu_guest_agent": "yes",
    "os_distro": "ubuntu",
    "img_hv_type": "kvm",
    "vm_mode": "hvm",
    "hw_pointer_model": "usbtablet",
    "my_own": "x",
}


def add_image_properties(rng: RandomSource, draft: RequestDraft) -> None:
    draft.image = {"id": IMAGE_UUID, "name": "cirros", "container_format": "bare"}
    if rng.chance(0.97):
        draft.image["disk_format"] = rng.choice(
            _DISK_FORMATS[:3] if rng.chance(0.6) else _DISK_FORMATS
        )
    for key in rng.sample(tuple(_FURTHER_IMAGE_PROPERTIES), 0, 2):
        draft.properties[key] = _FURTHER_IMAGE_PROPERTIES[key]


def add_device_models(rng: RandomSource, draft: RequestDraft) -> None:
    for key in rng.sample(tuple(_VALUES_OF_DEVICE_PROPERTIES), 1, 3):
        draft.properties[key] = rng.choice(_VALUES_OF_DEVICE_PROPERTIES[key])


def add_image_traits(rng: RandomSource, draft: RequestDraft) -> None:
    for name in rng.sample(TRAITS, 1, 2):
        word = "required" if rng.chance(0.9) else rng.choice(["forbidden", "Required"])
        draft.properties[f"trait:{name}"] = word
