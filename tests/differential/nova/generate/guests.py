# SPDX-License-Identifier: Apache-2.0
"""Random extra specs and image properties of guests that nova translates into traits."""

from tests.differential.generate.random_values import RandomSource
from tests.differential.nova.generate.draft import FALSE_VALUES, TRUE_VALUES, RequestDraft


def add_memory_encryption(rng: RandomSource, draft: RequestDraft) -> None:
    draft.set_in_flavor_or_image(
        rng, "mem_encryption", rng.choice(TRUE_VALUES if rng.chance(0.9) else FALSE_VALUES)
    )
    if rng.chance(0.9):
        draft.properties["hw_firmware_type"] = "uefi"
    if rng.chance(0.7):
        draft.properties["hw_machine_type"] = rng.choice(["q35", "pc-q35-8.2", "q35", "pc"])
    if rng.chance(0.4):
        draft.set_in_flavor_or_image(
            rng, "mem_encryption_model", rng.choice(["amd-sev", "amd-sev-es"])
        )
    if rng.chance(0.3):
        draft.properties["hw_firmware_stateless"] = rng.choice(TRUE_VALUES)


def add_ephemeral_encryption(rng: RandomSource, draft: RequestDraft) -> None:
    draft.set_in_flavor_or_image(
        rng, "ephemeral_encryption", rng.choice(TRUE_VALUES if rng.chance(0.8) else FALSE_VALUES)
    )
    if rng.chance(0.6):
        draft.set_in_flavor_or_image(
            rng, "ephemeral_encryption_format", rng.choice(["luks", "luks", "plain"])
        )


def add_persistent_memory(rng: RandomSource, draft: RequestDraft) -> None:
    draft.extra_specs["hw:pmem"] = rng.choice(
        ["4GB", "4GB,4GB", "4GB,SMALL", " SMALL , 4GB", "small"]
    )


def add_tpm(rng: RandomSource, draft: RequestDraft) -> None:
    if rng.chance(0.9):
        draft.set_in_flavor_or_image(rng, "tpm_version", rng.choice(["2.0", "2.0", "1.2"]))
    if rng.chance(0.6):
        draft.set_in_flavor_or_image(rng, "tpm_model", rng.choice(["tpm-tis", "tpm-crb"]))
    if rng.chance(0.4):
        draft.extra_specs["hw:tpm_secret_security"] = rng.choice(["user", "host", "deployment"])


def add_secure_boot(rng: RandomSource, draft: RequestDraft) -> None:
    policy = rng.choice(["required", "required", "optional", "disabled"])
    draft.set_in_flavor_or_image(rng, "secure_boot", policy, prefix="os")


def add_stateless_firmware(rng: RandomSource, draft: RequestDraft) -> None:
    draft.properties["hw_firmware_stateless"] = rng.choice(TRUE_VALUES + FALSE_VALUES)
    if rng.chance(0.8):
        draft.properties["hw_firmware_type"] = rng.choice(["uefi", "uefi", "bios"])


def add_address_bits(rng: RandomSource, draft: RequestDraft) -> None:
    draft.set_in_flavor_or_image(rng, "maxphysaddr_mode", rng.choice(["passthrough", "emulate"]))
    if rng.chance(0.3):
        draft.set_in_flavor_or_image(rng, "maxphysaddr_bits", rng.choice(["42", "46"]))


def add_sound_model(rng: RandomSource, draft: RequestDraft) -> None:
    draft.set_in_flavor_or_image(
        rng, "sound_model", rng.choice(["virtio", "virtio", "ich9", "sb16"])
    )


def add_packed_ring(rng: RandomSource, draft: RequestDraft) -> None:
    draft.set_in_flavor_or_image(
        rng, "virtio_packed_ring", rng.choice(TRUE_VALUES if rng.chance(0.8) else FALSE_VALUES)
    )


def add_accelerator(rng: RandomSource, draft: RequestDraft) -> None:
    draft.extra_specs["accel:device_profile"] = rng.choice(["gpu", "gpu", ""])


def add_unrelated_extra_specs(rng: RandomSource, draft: RequestDraft) -> None:
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
    for key in rng.sample(tuple(specs), 1, 3):
        draft.extra_specs[key] = specs[key]
