# SPDX-License-Identifier: Apache-2.0
"""The tables of OpenStack placement, and the tables of this service."""

import pytest

from placement_sched.db.tables import OWN_TABLES, PLACEMENT_TABLES

pytestmark = pytest.mark.slow


def test_own_tables_are_distinct_from_placements():
    assert {table.name for table in OWN_TABLES}.isdisjoint(
        {table.name for table in PLACEMENT_TABLES}
    )
    assert all(table.name.startswith("sched_") for table in OWN_TABLES)
