# SPDX-License-Identifier: Apache-2.0
"""Tables of this service and of placement in the same database."""

from placement_sched.db.tables import OWN_TABLES, PLACEMENT_TABLES


def test_names_of_own_tables_are_distinct_from_those_of_placement():
    own = {table.name for table in OWN_TABLES}
    assert own.isdisjoint(table.name for table in PLACEMENT_TABLES)
    assert all(name.startswith("sched_") for name in own)
