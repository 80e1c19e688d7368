# SPDX-License-Identifier: Apache-2.0
"""Random image properties that have no equivalent extra spec."""

from tests.differential.generate.dice import Dice
from tests.differential.nova.generate.draft import TRAITS, RequestDraft

IMAGE = "1a1a1a1a-0000-4000-8000-000000000001"
_FORMATS = ("qcow2", "raw", "vmdk", "iso", "ami", "vhd", "vhdx", "vdi", "ploop", "aki", "gluster")

#: Properties that nova translates into traits if ``image_metadata_prefilter`` is set.
_MODELS = {
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
_OTHERS = {
    "os_type": "linux",
    "hw_rng_model": "virtio",
    "hw_qemu_guest_agent": "yes",
    "os_distro": "ubuntu",
    "img_hv_type": "kvm",
    "vm_mode": "hvm",
    "hw_pointer_model": "usbtablet",
    "my_own": "x",
}


def add_image_properties(dice: Dice, draft: RequestDraft) -> None:
    draft.image = {"id": IMAGE, "name": "cirros", "container_format": "bare"}
    if dice.chance(0.97):
        draft.image["disk_format"] = dice.choice(_FORMATS[:3] if dice.chance(0.6) else _FORMATS)
    for key in dice.sample(tuple(_OTHERS), 0, 2):
        draft.properties[key] = _OTHERS[key]


def add_device_models(dice: Dice, draft: RequestDraft) -> None:
    for key in dice.sample(tuple(_MODELS), 1, 3):
        draft.properties[key] = dice.choice(_MODELS[key])


def add_image_traits(dice: Dice, draft: RequestDraft) -> None:
    for name in dice.sample(TRAITS, 1, 2):
        word = "required" if dice.chance(0.9) else dice.choice(["forbidden", "Required"])
        draft.properties[f"trait:{name}"] = word
