# SPDX-License-Identifier: Apache-2.0
"""Old decisions: they are deleted in batches, with their places."""

from datetime import timedelta

import pytest

from placement_sched.model.decision import DecisionQuery
from placement_sched.store import decisions
from tests.scheduler.test_decisions import NOW, count, made_at
from tests.support.scheduling import instance


@pytest.mark.all_databases
def test_old_decisions_go_some_at_a_time_with_their_places(database):
    def fill(connection):
        for number in range(5):
            made = made_at(NOW - timedelta(days=number), number)
            decisions.record(connection, made, made.created_at)

    def purge(connection):
        return decisions.purge(connection, NOW - timedelta(days=1), 2)

    database.write(fill)
    assert [database.write(purge) for _ in range(3)] == [2, 1, 0]
    with database.read() as connection:
        left = decisions.search(connection, DecisionQuery())
    assert [one.uuid for one in left] == [instance(1001), instance(1000)]
    assert count(database, "sched_decision_places") == 2
