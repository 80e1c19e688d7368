# SPDX-License-Identifier: Apache-2.0
"""What is requested of memory (nova 34 observed)."""

import pytest

from placement_sched.model.hardware.numa import PAGES_ANY, PAGES_LARGE, PAGES_SMALL
from tests.model.hardware.asked import hardware_of, refused

KEY, NAME = "hw:mem_page_size", "hw_mem_page_size"
LOCKED, LOCKED_NAME = "hw:locked_memory", "hw_locked_memory"


@pytest.mark.parametrize(
    ("by_flavor", "by_image", "size"),
    [
        ({}, {}, None),
        ({KEY: ""}, {}, None),
        ({KEY: "small"}, {}, PAGES_SMALL),
        ({KEY: "large"}, {}, PAGES_LARGE),
        ({KEY: "any"}, {}, PAGES_ANY),
        ({KEY: "0"}, {}, 0),
        ({KEY: "2048"}, {}, 2048),
        ({KEY: "2MB"}, {}, 2048),
        ({KEY: "1GiB"}, {}, 1048576),
        ({KEY: "4Kb"}, {}, 0.5),
        ({KEY: "large"}, {NAME: "2MB"}, 2048),
        ({KEY: "any"}, {NAME: "small"}, PAGES_SMALL),
        ({KEY: "any"}, {NAME: "any"}, PAGES_ANY),
    ],
)
def test_page_size_is_in_kib_or_a_word(by_flavor, by_image, size):
    assert hardware_of(by_flavor, by_image).memory.page_size == size


@pytest.mark.parametrize(
    ("by_flavor", "by_image", "named"),
    [
        ({KEY: "huge"}, {}, (KEY,)),
        ({KEY: "²"}, {}, (KEY,)),
        ({KEY: "9" * 400 + "TB"}, {}, (KEY,)),
        ({KEY: "Large"}, {NAME: "2048"}, (KEY,)),
        ({KEY: "large"}, {NAME: "x"}, (NAME,)),
        ({}, {NAME: "2048"}, (KEY, NAME)),
        ({KEY: "2048"}, {NAME: "2048"}, (KEY, NAME)),
        ({KEY: "small"}, {NAME: "small"}, (KEY, NAME)),
    ],
)
def test_page_size_refuses_what_is_none_and_an_image_that_may_not_choose(
    by_flavor, by_image, named
):
    refused(lambda: hardware_of(by_flavor, by_image).memory.page_size, *named)


UEFI = {"hw_firmware_type": "uefi"}
ON = {"hw:mem_encryption": "true"}
STATELESS = {**UEFI, "hw_firmware_stateless": "true"}


@pytest.mark.parametrize(
    ("by_flavor", "by_image", "locked"),
    [
        ({}, {}, None),
        ({LOCKED: "false"}, {}, False),
        ({}, {LOCKED_NAME: "false"}, False),
        ({LOCKED: "true", KEY: "any"}, {}, True),
        ({KEY: "any"}, {LOCKED_NAME: "true"}, True),
        (ON, UEFI, True),
        ({**ON, LOCKED: "false"}, UEFI, True),
        ({**ON, "hw:mem_encryption_model": "amd-sev-snp"}, STATELESS, None),
    ],
)
def test_locked_memory_is_asked_for_or_needed_by_encryption(by_flavor, by_image, locked):
    assert hardware_of(by_flavor, by_image).memory.is_locked is locked


@pytest.mark.parametrize(
    ("by_flavor", "by_image", "named"),
    [
        ({LOCKED: "true"}, {}, (LOCKED, KEY)),
        ({}, {LOCKED_NAME: "true"}, (LOCKED_NAME, KEY)),
        ({LOCKED: "true", KEY: "any"}, {LOCKED_NAME: "false"}, (LOCKED, LOCKED_NAME)),
        (ON, {}, ("hw:mem_encryption", "hw_firmware_type")),
    ],
)
def test_locked_memory_needs_a_page_size_and_one_word(by_flavor, by_image, named):
    refused(lambda: hardware_of(by_flavor, by_image).memory.is_locked, *named)


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
    found = hardware_of(extra_specs, properties).memory.encryption
    assert (found and found.trait) == trait


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
    refused(lambda: hardware_of(extra_specs, properties).memory.encryption, *named)
