# SPDX-License-Identifier: Apache-2.0
"""Hosts of cells that are disabled in nova, or whose databases are unavailable."""

from datetime import timedelta

import pytest

from placement_sched.model.clock import utcnow
from placement_sched.model.instance import NovaCell
from placement_sched.store.compute import cells
from tests.scheduler.test_scheduler import explain
from tests.support.scheduling import instance, report, spec
from tests.support.statements import record_statements

pytestmark = pytest.mark.all_databases

ONE, TWO = "c0000000-0000-0000-0000-000000000001", "c0000000-0000-0000-0000-000000000002"
REFUSED = "connection refused"


@pytest.fixture
def cloud(app):
    """A host in each of two cells, and a host without a cell."""
    reports = [report("cn1", cell_uuid=ONE), report("cn2", cell_uuid=TWO), report("cn3")]
    app.post_json("/scheduler/v1/compute_nodes", reports)
    return app


def record_cells(app, *found):
    def put_cells(connection):
        cells.put(connection, found, utcnow())

    app.app.services.database.write(put_cells)


def mark_unavailable(app, uuid, seconds):
    """Record that the database of a cell has been unavailable for seconds."""
    since = utcnow() - timedelta(seconds=seconds)
    app.app.services.database.write(
        lambda connection: cells.note_away(connection, uuid, REFUSED, since)
    )


def read_cell_rejections(explanation):
    """Return the reasons of rejections by cell, by host."""
    stages = [
        entry for entry in explanation["funnel"]["filters"] if entry["name"] == "enabled_cells"
    ]
    return {
        rejection["host"]: rejection["reason"]
        for stage in stages
        for rejection in stage["rejected"]
    }


def read_hosts(explanation):
    return sorted(host["host"] for host in explanation["hosts"])


def test_hosts_of_a_cell_disabled_in_nova_are_rejected(cloud):
    record_cells(cloud, NovaCell(uuid=ONE, name="one"), NovaCell(uuid=TWO))
    answer = explain(cloud, spec())
    assert read_hosts(answer) == ["cn1", "cn2", "cn3"]
    assert "enabled_cells" not in {stage["name"] for stage in answer["funnel"]["filters"]}
    record_cells(cloud, NovaCell(uuid=ONE, name="one", disabled=True), NovaCell(uuid=TWO))
    answer = explain(cloud, spec())
    assert read_cell_rejections(answer) == {"cn1": "its cell is disabled"}
    assert read_hosts(answer) == ["cn2", "cn3"]
    assert explain(cloud, spec(force_hosts=["cn1"]))["outcome"] == "no_valid_host"


def test_move_within_a_cell_disabled_in_nova_finds_its_hosts(cloud):
    record_cells(cloud, NovaCell(uuid=ONE, disabled=True))
    answer = explain(cloud, spec(requested_destination={"cell": ONE.upper()}))
    assert read_hosts(answer) == ["cn1"]
    overrides = {"scheduler.disabled_cells": [ONE]}
    answer = explain(cloud, spec(requested_destination={"cell": ONE}), overrides=overrides)
    assert read_cell_rejections(answer) == {"cn1": "its cell is disabled"}


def test_hosts_of_a_cell_with_an_unavailable_database_are_rejected(cloud):
    record_cells(cloud, NovaCell(uuid=ONE, name="one"), NovaCell(uuid=TWO))
    mark_unavailable(cloud, ONE, 93)
    mark_unavailable(cloud, TWO, 3600)
    answer = explain(cloud, spec(requested_destination={"cell": TWO}))
    reasons = read_cell_rejections(answer)
    head, _, rest = reasons["cn1"].partition(" has not answered for ")
    seconds, _, failure = rest.partition(" s: ")
    assert (head, failure) == ("the database of cell one", REFUSED)
    assert 93 <= int(seconds) < 3600
    assert reasons["cn2"].startswith(f"the database of cell {TWO} has not answered for 36")
    assert answer["outcome"] == "no_valid_host"
    cloud.app.services.database.write(
        lambda connection: cells.note_read(connection, [ONE, TWO], utcnow())
    )
    assert read_hosts(explain(cloud, spec())) == ["cn1", "cn2", "cn3"]


def test_verdict_names_the_cell(cloud):
    record_cells(cloud, NovaCell(uuid=ONE, disabled=True))
    mark_unavailable(cloud, ONE, 5)
    answer = explain(cloud, spec(ignore_hosts=["cn1"]), hosts=["cn1"])
    (verdict,) = answer["verdicts"]
    reasons = {reason["name"]: reason["reason"] for reason in verdict["reasons"]}
    assert reasons["enabled_cells"].startswith(f"the database of cell {ONE} has not answered for")
    assert reasons["ignore_hosts"] == "the request asks to ignore it"


def read_statements(app, number):
    """Return the statements of a request with filled caches."""
    ask = {"request_spec": spec(instance(number)), "claim": False}
    app.post_json("/scheduler/v1/select_destinations", ask)
    with record_statements(app.app.services.database) as seen:
        app.post_json("/scheduler/v1/select_destinations", ask)
    return seen


def test_closed_cells_are_read_in_one_statement_if_needed(cloud):
    record_cells(cloud, *(NovaCell(uuid=f"c0000000-0000-0000-0000-{n:012}") for n in range(50)))
    mark_unavailable(cloud, TWO, 5)
    assert sum("sched_cells" in entry for entry in read_statements(cloud, 1)) == 1
    cloud.post_json("/scheduler/v1/compute_nodes", [report("cn1"), report("cn2")])
    assert sum("sched_cells" in item for item in read_statements(cloud, 2)) == 0
