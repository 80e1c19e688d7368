# SPDX-License-Identifier: Apache-2.0
"""Tables of this service and of placement in the same database."""

from placement_sched.db.tables import OWN_TABLES, PLACEMENT_TABLES


def test_no_table_of_this_service_has_a_name_of_a_placement_table():
    own = {table.name for table in OWN_TABLES}
    assert own.isdisjoint(table.name for table in PLACEMENT_TABLES)
    assert all(name.startswith("sched_") for name in own)
