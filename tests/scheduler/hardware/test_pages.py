"""The pages that memory is made of (nova 34 observed)."""

import pytest

from placement_sched.errors import Invalid
from placement_sched.model.numa_topology import PAGES_ANY, PAGES_LARGE, PAGES_SMALL
from placement_sched.scheduler.hardware.pages import locked_memory, page_size
from tests.scheduler.hardware.asked import flavor_of, image_of

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
    assert page_size(flavor_of(by_flavor), image_of(by_image)) == size


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
    with pytest.raises(Invalid) as refused:
        page_size(flavor_of(by_flavor), image_of(by_image))
    assert all(f"'{key}'" in refused.value.detail for key in named)


SEV = {"hw:mem_encryption": "true"}
UEFI = {"hw_firmware_type": "uefi", "hw_firmware_stateless": "true"}


@pytest.mark.parametrize(
    ("by_flavor", "by_image", "locked"),
    [
        ({}, {}, None),
        ({LOCKED: "false"}, {}, False),
        ({}, {LOCKED_NAME: "false"}, False),
        ({LOCKED: "true", KEY: "any"}, {}, True),
        ({KEY: "any"}, {LOCKED_NAME: "true"}, True),
        (SEV, UEFI, True),
        ({**SEV, LOCKED: "false"}, UEFI, True),
        ({**SEV, "hw:mem_encryption_model": "amd-sev-snp"}, UEFI, None),
    ],
)
def test_locked_memory_is_asked_for_or_needed_by_encryption(by_flavor, by_image, locked):
    assert locked_memory(flavor_of(by_flavor), image_of(by_image)) is locked


@pytest.mark.parametrize(
    ("by_flavor", "by_image", "named"),
    [
        ({LOCKED: "true"}, {}, (LOCKED, KEY)),
        ({}, {LOCKED_NAME: "true"}, (LOCKED_NAME, KEY)),
        ({LOCKED: "true", KEY: "any"}, {LOCKED_NAME: "false"}, (LOCKED, LOCKED_NAME)),
        (SEV, {}, ("hw:mem_encryption", "hw_firmware_type")),
    ],
)
def test_locked_memory_needs_a_page_size_and_one_word(by_flavor, by_image, named):
    with pytest.raises(Invalid) as refused:
        locked_memory(flavor_of(by_flavor), image_of(by_image))
    assert all(f"'{key}'" in refused.value.detail for key in named)
