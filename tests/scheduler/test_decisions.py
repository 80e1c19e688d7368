# SPDX-License-Identifier: Apache-2.0
"""Decisions: recorded with the claim, limited in size, and deleted later."""

from contextlib import contextmanager

import pytest
from sqlalchemy import text

from placement_sched.errors import NoValidHost, Unavailable
from placement_sched.explain.values import (
    CandidatesReport,
    FilterReport,
    Funnel,
    Rejected,
    RequestFilterReport,
)
from placement_sched.model.rejection import Rejection
from placement_sched.scheduler.claim import ClaimMode
from placement_sched.scheduler.decisions import MAX_FUNNEL_BYTES, limit_size
from tests.support.scheduling import (
    get_selected_hosts,
    make_flavor,
    make_report,
    make_spec,
    make_uuid,
)
from tests.support.statements import count_table_rows, record_statements


@pytest.fixture
def cloud(app):
    app.post_json("/scheduler/v1/compute_nodes", [make_report(f"cn{number}") for number in (1, 2)])
    return app


@contextmanager
def rename_table_temporarily(database, table):
    """Rename a table for the time of a block."""

    def rename_table(before, after):
        statement = text(f"ALTER TABLE {before} RENAME TO {after}")
        database.write(lambda connection: connection.execute(statement))

    rename_table(table, f"{table}_away")
    try:
        yield
    finally:
        rename_table(f"{table}_away", table)


@pytest.mark.all_databases
def test_claim_without_its_decision_is_rolled_back(cloud):
    database = cloud.app.services.database
    with rename_table_temporarily(database, "sched_decision_places"), pytest.raises(Unavailable):
        cloud.app.services.scheduler.select_destinations(make_spec(make_uuid(1)))
    for table in ("allocations", "sched_instances", "sched_decisions"):
        assert count_table_rows(database, table) == 0


def test_selection_without_a_claim_succeeds_if_its_decision_fails(cloud):
    scheduler, database = cloud.app.services.scheduler, cloud.app.services.database
    with rename_table_temporarily(database, "sched_decision_places"):
        result = scheduler.select_destinations(
            make_spec(make_uuid(1)), claiming=ClaimMode.NONE
        ).as_json()
        with pytest.raises(NoValidHost):
            scheduler.select_destinations(make_spec(flavor=make_flavor(vcpus=99)))
    assert get_selected_hosts(result) == ["cn1"]
    assert count_table_rows(database, "sched_decisions") == 0


def build_funnel(number=0, *, reason="full", query="resources=VCPU:1", detail="a"):
    rejected = tuple(Rejected(f"cn{number}", "node", Rejection(reason)) for number in range(number))
    return Funnel(
        request_filters=(
            RequestFilterReport(name="f", applied=True, elapsed_ms=1.0, changes={"a": detail}),
        ),
        allocation_candidates=CandidatesReport(query=query, hosts=number),
        filters=(FilterReport(name="F", before=number, after=0, rejected=rejected),),
    )


@pytest.mark.parametrize(
    ("funnel", "expected"),
    [
        (build_funnel(3), 3),
        (build_funnel(500), 100),
        (build_funnel(500, reason="x" * 2_000), 20),
        (build_funnel(500, reason="x" * 10_000), 3),
    ],
    ids=["all 3 hosts", "100 of 500 hosts", "20 of 500 hosts", "3 of 500 hosts"],
)
def test_larger_funnels_are_recorded_with_fewer_rejected_hosts(funnel, expected):
    (stored,) = limit_size(funnel)["filters"]
    assert (len(stored["rejected"]), stored["before"]) == (expected, funnel.filters[0].before)


@pytest.mark.parametrize(
    "funnel",
    [
        build_funnel(500, reason="x" * MAX_FUNNEL_BYTES),
        build_funnel(2, detail="x" * MAX_FUNNEL_BYTES),
        build_funnel(2, query="x" * MAX_FUNNEL_BYTES),
    ],
    ids=["long reasons", "long changes", "long query"],
)
def test_too_large_funnel_is_recorded_with_its_counts_only(funnel):
    stored = limit_size(funnel)
    assert stored["outline"]
    assert len(str(stored)) < MAX_FUNNEL_BYTES
    expected = {"name": "F", "before": funnel.filters[0].before, "after": 0}
    assert stored["filters"] == [expected]


def test_list_of_decisions_takes_a_constant_number_of_statements(cloud):
    counts = set()
    for number in (1, 2, 3):
        cloud.app.services.scheduler.select_destinations(make_spec(make_uuid(number)))
        with record_statements(cloud.app.services.database) as statements:
            cloud.get(f"/scheduler/v1/decisions?host=cn1&instance={make_uuid(1)}&outcome=selected")
        counts.add(len(statements))
    assert counts == {3}  # version, decisions, names of their instances
