"""Memory that the host cannot read (nova 34 observed)."""

import pytest

from placement_sched.errors import Invalid
from placement_sched.scheduler.hardware.memory_encryption import encryption_trait
from tests.scheduler.hardware.asked import flavor_of, image_of

UEFI = {"hw_firmware_type": "uefi"}
STATELESS = {**UEFI, "hw_firmware_stateless": "true"}
ON = {"hw:mem_encryption": "true"}
MODEL = "hw:mem_encryption_model"


@pytest.mark.parametrize(
    ("extra_specs", "properties", "trait"),
    [
        ({}, {}, None),
        ({"hw:mem_encryption": "false"}, {"hw_mem_encryption": "no"}, None),
        ({MODEL: "junk"}, {"hw_mem_encryption_model": "amd-sev"}, None),
        (ON, UEFI, "HW_CPU_X86_AMD_SEV"),
        ({}, {**UEFI, "hw_mem_encryption": "yes"}, "HW_CPU_X86_AMD_SEV"),
        (ON, {**UEFI, "hw_machine_type": "pc-q35-2.11"}, "HW_CPU_X86_AMD_SEV"),
        ({**ON, MODEL: "amd-sev-es"}, UEFI, "HW_CPU_X86_AMD_SEV_ES"),
        ({**ON, MODEL: "amd-sev-snp"}, STATELESS, "HW_CPU_X86_AMD_SEV_SNP"),
        (ON, {**STATELESS, "hw_mem_encryption_model": "amd-sev-snp"}, "HW_CPU_X86_AMD_SEV_SNP"),
        (
            {**ON, MODEL: "intel-tdx"},
            {**STATELESS, "hw_video_model": "none"},
            "HW_CPU_X86_INTEL_TDX",
        ),
    ],
)
def test_encryption_trait_is_that_of_the_model(extra_specs, properties, trait):
    assert encryption_trait(flavor_of(extra_specs), image_of(properties)) == trait


@pytest.mark.parametrize(
    ("extra_specs", "properties", "named"),
    [
        (ON, {**UEFI, "hw_mem_encryption": "no"}, ("hw:mem_encryption", "hw_mem_encryption")),
        (
            {"hw:mem_encryption": "no"},
            {**UEFI, "hw_mem_encryption": "yes"},
            ("hw:mem_encryption", "hw_mem_encryption"),
        ),
        (ON, {}, ("hw:mem_encryption", "hw_firmware_type")),
        ({}, {"hw_mem_encryption": "1"}, ("hw_mem_encryption", "hw_firmware_type")),
        (ON, {**UEFI, "hw_machine_type": "pc"}, ("hw:mem_encryption", "hw_machine_type")),
        ({**ON, MODEL: "amd-sev-snp"}, UEFI, ("hw:mem_encryption", "hw_firmware_stateless")),
        ({**ON, MODEL: "intel-tdx"}, STATELESS, ("hw:mem_encryption", "hw_video_model")),
        ({**ON, MODEL: "junk"}, UEFI, (MODEL,)),
        (
            {**ON, MODEL: "amd-sev"},
            {**UEFI, "hw_mem_encryption_model": "amd-sev-es"},
            (MODEL, "hw_mem_encryption_model"),
        ),
    ],
)
def test_encryption_trait_refuses_naming_what_does_not_go_together(extra_specs, properties, named):
    with pytest.raises(Invalid) as refused:
        encryption_trait(flavor_of(extra_specs), image_of(properties))
    assert all(f"'{key}'" in refused.value.detail for key in named)
