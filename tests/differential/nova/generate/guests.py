# SPDX-License-Identifier: Apache-2.0
"""Extra specs and properties that say what a guest is made of, and which nova makes traits of."""

from tests.differential.generate.dice import Dice
from tests.differential.nova.generate.draft import FALSE, TRUE, Draft


def memory_encryption(dice: Dice, draft: Draft) -> None:
    draft.either(dice, "mem_encryption", dice.one(TRUE if dice.chance(0.9) else FALSE))
    if dice.chance(0.9):
        draft.properties["hw_firmware_type"] = "uefi"
    if dice.chance(0.7):
        draft.properties["hw_machine_type"] = dice.one(["q35", "pc-q35-8.2", "q35", "pc"])
    if dice.chance(0.4):
        draft.either(dice, "mem_encryption_model", dice.one(["amd-sev", "amd-sev-es"]))
    if dice.chance(0.3):
        draft.properties["hw_firmware_stateless"] = dice.one(TRUE)


def ephemeral_encryption(dice: Dice, draft: Draft) -> None:
    draft.either(dice, "ephemeral_encryption", dice.one(TRUE if dice.chance(0.8) else FALSE))
    if dice.chance(0.6):
        draft.either(dice, "ephemeral_encryption_format", dice.one(["luks", "luks", "plain"]))


def persistent_memory(dice: Dice, draft: Draft) -> None:
    draft.extra_specs["hw:pmem"] = dice.one(
        ["4GB", "4GB,4GB", "4GB,SMALL", " SMALL , 4GB", "small"]
    )


def tpm(dice: Dice, draft: Draft) -> None:
    if dice.chance(0.9):
        draft.either(dice, "tpm_version", dice.one(["2.0", "2.0", "1.2"]))
    if dice.chance(0.6):
        draft.either(dice, "tpm_model", dice.one(["tpm-tis", "tpm-crb"]))
    if dice.chance(0.4):
        draft.extra_specs["hw:tpm_secret_security"] = dice.one(["user", "host", "deployment"])


def secure_boot(dice: Dice, draft: Draft) -> None:
    policy = dice.one(["required", "required", "optional", "disabled"])
    draft.either(dice, "secure_boot", policy, prefix="os")


def stateless_firmware(dice: Dice, draft: Draft) -> None:
    draft.properties["hw_firmware_stateless"] = dice.one(TRUE + FALSE)
    if dice.chance(0.8):
        draft.properties["hw_firmware_type"] = dice.one(["uefi", "uefi", "bios"])


def address_bits(dice: Dice, draft: Draft) -> None:
    draft.either(dice, "maxphysaddr_mode", dice.one(["passthrough", "emulate"]))
    if dice.chance(0.3):
        draft.either(dice, "maxphysaddr_bits", dice.one(["42", "46"]))


def sound(dice: Dice, draft: Draft) -> None:
    draft.either(dice, "sound_model", dice.one(["virtio", "virtio", "ich9", "sb16"]))


def packed_ring(dice: Dice, draft: Draft) -> None:
    draft.either(dice, "virtio_packed_ring", dice.one(TRUE if dice.chance(0.8) else FALSE))


def accelerator(dice: Dice, draft: Draft) -> None:
    draft.extra_specs["accel:device_profile"] = dice.one(["gpu", "gpu", ""])


def noise(dice: Dice, draft: Draft) -> None:
    said = {
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
    for key in dice.some(tuple(said), 1, 3):
        draft.extra_specs[key] = said[key]
