# SPDX-License-Identifier: Apache-2.0
"""What is written down of answers: with the claim or not at all, bounded, and for a while."""

from contextlib import contextmanager
from datetime import datetime, timedelta

import pytest
from sqlalchemy import text

from placement_sched.errors import NoValidHost, Unavailable
from placement_sched.model.decision import Decision, PlacedInstance
from placement_sched.model.explanation import (
    CandidatesReport,
    FilterReport,
    Funnel,
    Rejected,
    RequestFilterReport,
)
from placement_sched.scheduler.claim import ClaimMode
from placement_sched.scheduler.decisions import MOST_BYTES, Retention, limit_size
from placement_sched.store import decisions
from tests.conftest import make_settings
from tests.support.scheduling import flavor, hosts_of, instance, report, spec
from tests.support.statements import counted

NOW = datetime(2026, 1, 1, 12, 0, 0)


@pytest.fixture
def cloud(app):
    app.post_json("/scheduler/v1/compute_nodes", [report(f"cn{number}") for number in (1, 2)])
    return app


def count(database, table):
    with database.read() as connection:
        return connection.scalar(text(f"SELECT count(*) FROM {table}"))


@contextmanager
def without(database, table):
    """Take a table away for a while."""

    def rename(before, after):
        statement = text(f"ALTER TABLE {before} RENAME TO {after}")
        database.write(lambda connection: connection.execute(statement))

    rename(table, f"{table}_away")
    try:
        yield
    finally:
        rename(f"{table}_away", table)


@pytest.mark.all_databases
def test_claim_whose_decision_cannot_be_written_claims_nothing(cloud):
    database = cloud.app.services.database
    with without(database, "sched_decision_places"), pytest.raises(Unavailable):
        cloud.app.services.scheduler.select_destinations(spec(instance(1)))
    for table in ("allocations", "sched_instances", "sched_decisions"):
        assert count(database, table) == 0


def test_answer_that_allocates_nothing_is_given_without_a_record_of_it(cloud):
    scheduler, database = cloud.app.services.scheduler, cloud.app.services.database
    with without(database, "sched_decision_places"):
        answer = scheduler.select_destinations(spec(instance(1)), claiming=ClaimMode.NONE)
        with pytest.raises(NoValidHost):
            scheduler.select_destinations(spec(flavor=flavor(vcpus=99)))
    assert hosts_of(answer) == ["cn1"]
    assert count(database, "sched_decisions") == 0


def a_funnel(refused=0, *, reason="full", query="resources=VCPU:1", detail="a"):
    rejected = tuple(Rejected(f"cn{number}", "node", reason) for number in range(refused))
    return Funnel(
        request_filters=(
            RequestFilterReport(name="f", applied=True, elapsed_ms=1.0, changes={"a": detail}),
        ),
        allocation_candidates=CandidatesReport(query=query, hosts=refused),
        filters=(FilterReport(name="F", before=refused, after=0, rejected=rejected),),
    )


@pytest.mark.parametrize(
    ("funnel", "told"),
    [
        (a_funnel(3), 3),
        (a_funnel(500), 100),
        (a_funnel(500, reason="x" * 2_000), 20),
        (a_funnel(500, reason="x" * 10_000), 3),
    ],
    ids=["all", "a hundred", "twenty", "three"],
)
def test_funnel_keeps_as_many_refused_hosts_as_there_is_room_for(funnel, told):
    (kept,) = limit_size(funnel)["filters"]
    assert (len(kept["rejected"]), kept["before"]) == (told, funnel.filters[0].before)


@pytest.mark.parametrize(
    "funnel",
    [
        a_funnel(500, reason="x" * MOST_BYTES),
        a_funnel(2, detail="x" * MOST_BYTES),
        a_funnel(2, query="x" * MOST_BYTES),
    ],
    ids=["reasons", "changes", "query"],
)
def test_funnel_that_is_large_all_the_same_keeps_its_counts(funnel):
    kept = limit_size(funnel)
    assert kept["outline"]
    assert len(str(kept)) < MOST_BYTES
    expected = {"name": "F", "before": funnel.filters[0].before, "after": 0}
    assert kept["filters"] == [expected]


def made_at(moment, number=0):
    return Decision(
        uuid=instance(1000 + number),
        outcome="selected",
        project_id=None,
        digest="",
        request={},
        answer={},
        places=(PlacedInstance(instance(number), "cn1"),),
        created_at=moment,
    )


def test_retention_looks_for_old_ones_now_and_then_and_keeps_up(database):
    """Once a minute, or each so many decisions: always fewer than go at a time."""
    retention = Retention(database, keeping=60)
    assert retention.MOST > retention.EVERY
    old = NOW - timedelta(seconds=61)
    database.write(lambda connection: decisions.record(connection, made_at(old), old))
    retention.made_one(NOW)
    with counted(database) as statements:
        for _ in range(retention.EVERY - 2):
            retention.made_one(NOW)
    assert statements == []
    retention.made_one(NOW)
    assert count(database, "sched_decisions") == 0
    database.write(lambda connection: decisions.record(connection, made_at(old), old))
    retention.made_one(NOW + timedelta(seconds=59))
    assert count(database, "sched_decisions") == 1
    retention.made_one(NOW + timedelta(seconds=60))
    assert count(database, "sched_decisions") == 0


def test_retention_looks_for_old_ones_also_after_the_clock_went_back(database):
    retention = Retention(database, keeping=60)
    retention.made_one(NOW + timedelta(days=365))
    old = NOW - timedelta(seconds=61)
    database.write(lambda connection: decisions.record(connection, made_at(old), old))
    retention.made_one(NOW)
    assert count(database, "sched_decisions") == 0


def test_one_process_deletes_what_all_have_made(database):
    one, other = (Retention(database, keeping=60) for _ in range(2))
    one.MOST = 1  # so that it deletes in several goes
    old = NOW - timedelta(seconds=61)
    for retention, left in ((one, 0), (other, 3)):
        for number in range(3):
            made = made_at(old, number)
            database.write(lambda connection, made=made: decisions.record(connection, made, old))
        retention.made_one(NOW)
        retention.made_one(NOW + timedelta(seconds=60))
        assert count(database, "sched_decisions") == left


def test_retention_of_0_keeps_them_for_ever(database):
    retention = Retention(database, keeping=0)
    database.write(lambda connection: decisions.record(connection, made_at(NOW), NOW))
    for _ in range(2 * retention.EVERY):
        retention.made_one(NOW + timedelta(days=9999))
    assert count(database, "sched_decisions") == 1


def test_service_keeps_them_as_long_as_configured(make_app, sqlite_url):
    app = make_app(make_settings(sqlite_url, scheduler__decision_retention=3600))
    assert app.app.services.scheduler.claims.retention._keeping == timedelta(hours=1)


def test_listing_takes_two_statements_however_many_there_are(cloud):
    counts = set()
    for number in (1, 2, 3):
        cloud.app.services.scheduler.select_destinations(spec(instance(number)))
        with counted(cloud.app.services.database) as statements:
            cloud.get(f"/scheduler/v1/decisions?host=cn1&instance={instance(1)}&outcome=selected")
        counts.add(len(statements))
    assert counts == {2}
