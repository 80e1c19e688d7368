"""Virtual persistent memory."""

import pytest

from placement_sched.scheduler.hardware.pmem import pmem_amounts
from tests.scheduler.hardware.asked import flavor_of


@pytest.mark.parametrize(
    ("value", "amounts"),
    [
        ("", {}),
        (" , ", {}),
        ("6gb", {"CUSTOM_PMEM_NAMESPACE_6GB": 1}),
        (
            "6GB, a-b,6gb,",
            {"CUSTOM_PMEM_NAMESPACE_6GB": 2, "CUSTOM_PMEM_NAMESPACE_A_B": 1},
        ),
    ],
)
def test_pmem_amounts_are_counted_by_class(value, amounts):
    assert pmem_amounts(flavor_of({"hw:pmem": value})) == amounts


def test_pmem_amounts_are_none_unless_asked():
    assert pmem_amounts(flavor_of({})) == {}
