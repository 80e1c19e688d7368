# SPDX-License-Identifier: Apache-2.0
"""Old decisions are deleted in batches together with their places."""

from datetime import timedelta

import pytest

from placement_sched.model.decision import DecisionQuery
from placement_sched.store import decisions
from tests.scheduler.test_decisions import NOW, build_decision, count_rows
from tests.support.scheduling import instance


@pytest.mark.all_databases
def test_old_decisions_are_purged_in_batches_with_placements(database):
    def write_rows(connection):
        for number in range(5):
            decision = build_decision(NOW - timedelta(days=number), number)
            decisions.record(connection, decision, decision.created_at)

    def purge_decisions(connection):
        return decisions.purge(connection, NOW - timedelta(days=1), 2)

    database.write(write_rows)
    assert [database.write(purge_decisions) for _ in range(3)] == [2, 1, 0]
    with database.read() as connection:
        remaining = decisions.search(connection, DecisionQuery())
    assert [decision.uuid for decision in remaining] == [instance(1001), instance(1000)]
    assert count_rows(database, "sched_decision_places") == 2
