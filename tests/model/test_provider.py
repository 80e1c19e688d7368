# SPDX-License-Identifier: Apache-2.0
"""Reasons why an amount does not fit into an inventory."""

import pytest

from placement_sched.model.provider import Inventory, describe_shortage


@pytest.mark.parametrize(
    ("fields", "used", "reason"),
    [
        (None, 0, "none in inventory, 4 requested"),
        ({"total": 8}, 5, "3 free of 8, 4 requested"),
        ({"total": 8, "reserved": 8}, 0, "all 8 reserved, 4 requested"),
        ({"total": 1, "reserved": 1}, 1, "all 1 reserved, 4 requested"),
        ({"total": 2, "reserved": 5}, 0, "all 2 reserved, 4 requested"),
        (
            {"total": 1, "allocation_ratio": 0.5},
            0,
            "capacity 0 (total 1, reserved 0, allocation_ratio 0.5), 4 requested",
        ),
        ({"total": 8, "max_unit": 3}, 0, "at most 3 in one allocation (max_unit), 4 requested"),
    ],
)
def test_shortage_names_the_limit_of_the_inventory(fields, used, reason):
    inventory = None if fields is None else Inventory(resource_class="VCPU", **fields)
    assert describe_shortage(inventory, used, 4) == reason
