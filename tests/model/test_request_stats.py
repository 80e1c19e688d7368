# SPDX-License-Identifier: Apache-2.0
"""Statements and claims in the statistics of a request."""

from threading import Thread

import pytest

from placement_sched.db.transaction import Database
from placement_sched.errors import Conflict
from placement_sched.model.request_stats import begin_stats, get_request_stats, summarize_funnel
from tests.conftest import make_settings

pytestmark = pytest.mark.all_databases


def execute_select_one(connection):
    return connection.exec_driver_sql("SELECT 1").scalar_one()


def test_sql_statements_of_reads_and_writes_are_counted(database):
    begin_stats()
    with database.read() as connection:
        execute_select_one(connection)
    database.write(
        lambda connection: (execute_select_one(connection), execute_select_one(connection))
    )
    assert get_request_stats().statements == 3


def test_new_request_statistics_begin_at_zero(sqlite_database):
    sqlite_database.write(execute_select_one)
    get_request_stats().candidates = 7
    begin_stats()
    assert (get_request_stats().statements, get_request_stats().candidates) == (0, None)


def test_request_statistics_count_only_their_own_thread(sqlite_database):
    begin_stats()
    other = Thread(target=sqlite_database.write, args=(execute_select_one,))
    other.start()
    other.join(timeout=60)
    assert get_request_stats().statements == 0


def test_request_statistics_count_claims_by_result(sqlite_database):
    def raise_conflict(_connection):
        raise Conflict("no room")

    begin_stats()
    assert sqlite_database.claim(execute_select_one) == 1
    with pytest.raises(Conflict):
        sqlite_database.claim(raise_conflict)
    stats = get_request_stats()
    assert (stats.claims_won, stats.claims_lost, stats.claims_retried) == (1, 1, 0)


def test_request_statistics_count_claim_retries(postgresql_server):
    database = Database(make_settings(postgresql_server))
    calls = []
    begin_stats()

    def claim_at_third_attempt(connection):
        calls.append(1)
        if len(calls) < 3:
            connection.exec_driver_sql("SELECT pg_terminate_backend(pg_backend_pid())")
        return execute_select_one(connection)

    assert database.claim(claim_at_third_attempt) == 1
    assert (len(calls), get_request_stats().claims_retried, get_request_stats().claims_won) == (
        3,
        2,
        1,
    )
    database.dispose()


def test_funnel_summary_has_the_stages_that_removed_hosts():
    steps = [
        {"constraint": "resources", "before": 300, "after": 106},
        {"constraint": "required", "before": 106, "after": 106},
    ]
    filters = [
        {"name": "ComputeFilter", "before": 106, "after": 100},
        {"name": "ImagePropertiesFilter", "before": 100, "after": 100},
    ]
    funnel = {"allocation_candidates": {"steps": steps}, "filters": filters}
    assert summarize_funnel(funnel) == "300 > resources 106 > ComputeFilter 100"
    assert summarize_funnel({"allocation_candidates": None, "filters": []}) == ""
