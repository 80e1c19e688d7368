# SPDX-License-Identifier: Apache-2.0
"""Random extra specs and image properties of guests that nova translates into traits."""

from tests.differential.generate.dice import Dice
from tests.differential.nova.generate.draft import FALSE, TRUE, RequestDraft


def add_memory_encryption(dice: Dice, draft: RequestDraft) -> None:
    draft.set_in_flavor_or_image(
        dice, "mem_encryption", dice.choice(TRUE if dice.chance(0.9) else FALSE)
    )
    if dice.chance(0.9):
        draft.properties["hw_firmware_type"] = "uefi"
    if dice.chance(0.7):
        draft.properties["hw_machine_type"] = dice.choice(["q35", "pc-q35-8.2", "q35", "pc"])
    if dice.chance(0.4):
        draft.set_in_flavor_or_image(
            dice, "mem_encryption_model", dice.choice(["amd-sev", "amd-sev-es"])
        )
    if dice.chance(0.3):
        draft.properties["hw_firmware_stateless"] = dice.choice(TRUE)


def add_ephemeral_encryption(dice: Dice, draft: RequestDraft) -> None:
    draft.set_in_flavor_or_image(
        dice, "ephemeral_encryption", dice.choice(TRUE if dice.chance(0.8) else FALSE)
    )
    if dice.chance(0.6):
        draft.set_in_flavor_or_image(
            dice, "ephemeral_encryption_format", dice.choice(["luks", "luks", "plain"])
        )


def add_persistent_memory(dice: Dice, draft: RequestDraft) -> None:
    draft.extra_specs["hw:pmem"] = dice.choice(
        ["4GB", "4GB,4GB", "4GB,SMALL", " SMALL , 4GB", "small"]
    )


def add_tpm(dice: Dice, draft: RequestDraft) -> None:
    if dice.chance(0.9):
        draft.set_in_flavor_or_image(dice, "tpm_version", dice.choice(["2.0", "2.0", "1.2"]))
    if dice.chance(0.6):
        draft.set_in_flavor_or_image(dice, "tpm_model", dice.choice(["tpm-tis", "tpm-crb"]))
    if dice.chance(0.4):
        draft.extra_specs["hw:tpm_secret_security"] = dice.choice(["user", "host", "deployment"])


def add_secure_boot(dice: Dice, draft: RequestDraft) -> None:
    policy = dice.choice(["required", "required", "optional", "disabled"])
    draft.set_in_flavor_or_image(dice, "secure_boot", policy, prefix="os")


def add_stateless_firmware(dice: Dice, draft: RequestDraft) -> None:
    draft.properties["hw_firmware_stateless"] = dice.choice(TRUE + FALSE)
    if dice.chance(0.8):
        draft.properties["hw_firmware_type"] = dice.choice(["uefi", "uefi", "bios"])


def add_address_bits(dice: Dice, draft: RequestDraft) -> None:
    draft.set_in_flavor_or_image(dice, "maxphysaddr_mode", dice.choice(["passthrough", "emulate"]))
    if dice.chance(0.3):
        draft.set_in_flavor_or_image(dice, "maxphysaddr_bits", dice.choice(["42", "46"]))


def add_sound_model(dice: Dice, draft: RequestDraft) -> None:
    draft.set_in_flavor_or_image(
        dice, "sound_model", dice.choice(["virtio", "virtio", "ich9", "sb16"])
    )


def add_packed_ring(dice: Dice, draft: RequestDraft) -> None:
    draft.set_in_flavor_or_image(
        dice, "virtio_packed_ring", dice.choice(TRUE if dice.chance(0.8) else FALSE)
    )


def add_accelerator(dice: Dice, draft: RequestDraft) -> None:
    draft.extra_specs["accel:device_profile"] = dice.choice(["gpu", "gpu", ""])


def add_unrelated_extra_specs(dice: Dice, draft: RequestDraft) -> None:
    specs = {
        "quota:cpu_quota": "10000",
        "quota:vif_inbound_average": "100",
        "hw:cpu_sockets": "1",
        "hw:boot_menu": "true",
        "hw_rng:allowed": "True",
        "hw:watchdog_action": "reset",
        "aggregate_instance_extra_specs:ssd": "true",
        "capabilities:hypervisor_type": "QEMU",
        "hw:hide_hypervisor_id": "true",
        "mine": "x",
        "mine:own": "resources:VCPU",
    }
    for key in dice.sample(tuple(specs), 1, 3):
        draft.extra_specs[key] = specs[key]
