# SPDX-License-Identifier: Apache-2.0
"""Filters of servers by status and power state in SQL match the states that are shown."""

from datetime import datetime
from itertools import product

import pytest

from placement_sched.api.compute.servers import power_state_of, status_of
from placement_sched.model.instance import POWER_STATES, STATUSES, UNKNOWN, Instance
from placement_sched.store.compute import instances
from placement_sched.store.compute.instances import ServersWanted, search_servers
from tests.support.scheduling import instance

pytestmark = pytest.mark.all_databases

NOW = datetime(2026, 1, 1, 12, 0, 0)
TASKS = sorted({task for _, by_task in STATUSES.values() for task in by_task})


def build_instance(number, vm_state, task_state):
    return Instance(
        uuid=instance(number),
        host=None,
        node=None,
        project_id=None,
        user_id=None,
        display_name="x",
        vm_state=vm_state,
        task_state=task_state,
        flavor=None,
        image=None,
        server_group=None,
        decision_uuid=None,
    )


def test_status_filters_match_displayed_status(database):
    states = product([*STATUSES, "Active", "mended", None], [*TASKS, "Rebooting", "other", None])
    records = [build_instance(number, *pair) for number, pair in enumerate(states, start=1)]
    database.write(lambda connection: instances.record(connection, records, NOW))

    def uuids(**filters):
        with database.read() as connection:
            return {found.uuid for found in search_servers(connection, ServersWanted(**filters))}

    statuses = {status_of(record.vm_state, record.task_state) for record in records}
    assert UNKNOWN in statuses
    for status in statuses:
        expected = {r.uuid for r in records if status_of(r.vm_state, r.task_state) == status}
        assert uuids(statuses=frozenset({status})) == expected, status
    for number in {0, *POWER_STATES.values()}:
        expected = {record.uuid for record in records if power_state_of(record.vm_state) == number}
        assert uuids(power_state=number) == expected, number
