# SPDX-License-Identifier: Apache-2.0
"""Verdicts of shadow results, and their deletion."""

from datetime import datetime, timedelta

import pytest

from placement_sched.extensions.shadow import store
from placement_sched.model import shadow_result
from placement_sched.model.context import RequestIds
from placement_sched.model.decision import SHADOW, Decision
from placement_sched.model.shadow_result import ShadowResult
from placement_sched.store import decisions
from tests.support.scheduling import make_uuid
from tests.support.statements import run_query

pytestmark = pytest.mark.all_databases

RESULT_TIME = datetime(2026, 11, 22, 12, 0, 0)
EIGHT_DAYS_AGO = RESULT_TIME - timedelta(days=8)


def build_shadow_decision(uuid):
    return Decision(
        uuid=uuid,
        outcome="selected",
        project_id="p",
        digest="d",
        request={},
        result={"selections": []},
        request_ids=RequestIds("req-1", "req-2"),
        kind=SHADOW,
        flavor="m1",
    )


def build_shadow_result(uuid, position=0, **facts):
    return ShadowResult(decision=uuid, position=position, instance=make_uuid(position + 1), **facts)


@pytest.fixture
def database_with_shadow_results(database):
    """A database with a decision and its results, and a result without a decision."""

    def write_shadow_results(connection):
        decisions.record(connection, build_shadow_decision("d1"), RESULT_TIME)
        both = [
            build_shadow_result("d1", 0, our_host="cn1", detail={"a": 1}),
            build_shadow_result("d1", 1),
        ]
        store.record(connection, both, RESULT_TIME)
        alone = build_shadow_result("d2", verdict=shadow_result.FAILED)
        store.record(connection, [alone], EIGHT_DAYS_AGO)

    database.write(write_shadow_results)
    return database


def test_verdict_of_a_shadow_result_leaves_other_results_pending(database_with_shadow_results):
    pending = run_query(database_with_shadow_results, store.list_pending)
    assert [result.decision for result in pending] == ["d1", "d1"]
    settled = build_shadow_result(
        "d1", 1, verdict=shadow_result.OTHER_HOST, nova_host="cn2", detail={"why": "w"}
    )
    database_with_shadow_results.write(
        lambda connection: store.record_verdicts(connection, [settled], RESULT_TIME)
    )
    first, second = run_query(database_with_shadow_results, store.list_for_decision, "d1")
    assert (first.position, first.verdict) == (0, shadow_result.PENDING)
    assert first.request_ids == RequestIds("req-1", "req-2")
    assert (first.flavor, first.our_host, first.detail) == ("m1", "cn1", {"a": 1})
    assert first.created_at == RESULT_TIME
    assert (second.position, second.nova_host, second.detail) == (1, "cn2", {"why": "w"})
    assert second.verdict == shadow_result.OTHER_HOST


def test_shadow_results_are_deleted_with_their_decision_or_by_age(database_with_shadow_results):
    assert len(run_query(database_with_shadow_results, store.list_since, None)) == 3
    assert len(run_query(database_with_shadow_results, store.list_since, RESULT_TIME)) == 2
    database_with_shadow_results.write(
        lambda connection: decisions.purge(connection, RESULT_TIME, 10)
    )
    results = run_query(database_with_shadow_results, store.list_since, None)
    assert {result.decision for result in results} == {"d1"}
    later = RESULT_TIME + timedelta(days=1)
    database_with_shadow_results.write(lambda connection: decisions.purge(connection, later, 10))
    assert run_query(database_with_shadow_results, store.list_since, None) == ()
