# SPDX-License-Identifier: Apache-2.0
"""Records in nova's table of services."""

from datetime import datetime

import sqlalchemy as sa

from placement_sched.nova.databases import tables

NOW = datetime(2026, 5, 4, 12, 0, 0)
SERVICES_TABLE = tables.services


def read_service_rows(engine, *columns):
    with engine.connect() as connection:
        return list(
            map(
                tuple,
                connection.execute(sa.select(*(SERVICES_TABLE.c[column] for column in columns))),
            )
        )


def add_service(engine, host, binary="nova-scheduler", **changes):
    row = {"host": host, "binary": binary, "topic": binary.removeprefix("nova-"), "deleted": 0}
    row |= {"report_count": 7, "disabled": False, "version": 70, "last_seen_up": NOW, **changes}
    with engine.begin() as connection:
        connection.execute(sa.insert(SERVICES_TABLE).values(row))
