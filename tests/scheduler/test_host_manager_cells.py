# SPDX-License-Identifier: Apache-2.0
"""Hosts of cells that are disabled in nova, or whose databases do not answer, get no instances."""

from datetime import timedelta

import pytest

from placement_sched.model.clock import utcnow
from placement_sched.model.instance import NovaCell
from placement_sched.store.compute import cells
from tests.support.scheduling import instance, report, spec
from tests.support.statements import counted

pytestmark = pytest.mark.all_databases

ONE, TWO = "c0000000-0000-0000-0000-000000000001", "c0000000-0000-0000-0000-000000000002"
REFUSED = "connection refused"


@pytest.fixture
def cloud(app):
    """A host in each of two cells, and one in none."""
    reports = [report("cn1", cell_uuid=ONE), report("cn2", cell_uuid=TWO), report("cn3")]
    app.post_json("/scheduler/v1/compute_nodes", reports)
    return app


def record(app, *found):
    def put(connection):
        cells.put(connection, found, utcnow())

    app.app.services.database.write(put)


def lose(app, uuid, seconds):
    """Note that a cell's database has not answered for so many seconds."""
    since = utcnow() - timedelta(seconds=seconds)
    app.app.services.database.write(
        lambda connection: cells.note_away(connection, uuid, REFUSED, since)
    )


def explain(app, request_spec, **more):
    return app.post_json("/scheduler/v1/explain", {"request_spec": request_spec, **more}).json


def left_out(told):
    """Return why hosts were left out for their cells, by host."""
    stages = [one for one in told["funnel"]["filters"] if one["name"] == "enabled_cells"]
    return {one["host"]: one["reason"] for stage in stages for one in stage["rejected"]}


def passed(told):
    return sorted(host["host"] for host in told["hosts"])


def test_no_cell_is_closed_while_each_is_enabled_and_answers(cloud):
    record(cloud, NovaCell(uuid=ONE, name="one"), NovaCell(uuid=TWO))
    told = explain(cloud, spec())
    assert passed(told) == ["cn1", "cn2", "cn3"]
    assert "enabled_cells" not in {one["name"] for one in told["funnel"]["filters"]}


def test_hosts_of_a_cell_disabled_in_nova_are_left_out(cloud):
    record(cloud, NovaCell(uuid=ONE, name="one", disabled=True), NovaCell(uuid=TWO))
    told = explain(cloud, spec())
    assert left_out(told) == {"cn1": "its cell is disabled"}
    assert passed(told) == ["cn2", "cn3"]
    assert explain(cloud, spec(force_hosts=["cn1"]))["outcome"] == "no_valid_host"


def test_a_move_within_a_cell_disabled_in_nova_finds_its_hosts(cloud):
    record(cloud, NovaCell(uuid=ONE, disabled=True))
    told = explain(cloud, spec(requested_destination={"cell": ONE.upper()}))
    assert passed(told) == ["cn1"]
    closed = {"scheduler.disabled_cells": [ONE]}
    told = explain(cloud, spec(requested_destination={"cell": ONE}), overrides=closed)
    assert left_out(told) == {"cn1": "its cell is disabled"}


def test_hosts_of_a_cell_whose_database_does_not_answer_are_left_out_and_it_is_told_why(cloud):
    record(cloud, NovaCell(uuid=ONE, name="one"), NovaCell(uuid=TWO))
    lose(cloud, ONE, 93)
    lose(cloud, TWO, 3600)
    told = explain(cloud, spec(requested_destination={"cell": TWO}))
    reasons = left_out(told)
    head, _, rest = reasons["cn1"].partition(" has not answered for ")
    seconds, _, failure = rest.partition(" s: ")
    assert (head, failure) == ("the database of cell one", REFUSED)
    assert 93 <= int(seconds) < 3600
    assert reasons["cn2"].startswith(f"the database of cell {TWO} has not answered for 36")
    assert told["outcome"] == "no_valid_host"
    cloud.app.services.database.write(
        lambda connection: cells.note_read(connection, [ONE, TWO], utcnow())
    )
    assert passed(explain(cloud, spec())) == ["cn1", "cn2", "cn3"]


def test_the_verdict_on_one_host_names_its_cell(cloud):
    record(cloud, NovaCell(uuid=ONE, disabled=True))
    lose(cloud, ONE, 5)
    told = explain(cloud, spec(ignore_hosts=["cn1"]), hosts=["cn1"])
    (verdict,) = told["verdicts"]
    reasons = {one["name"]: one["reason"] for one in verdict["reasons"]}
    assert reasons["enabled_cells"].startswith(f"the database of cell {ONE} has not answered for")
    assert reasons["ignore_hosts"] == "the request asks to ignore it"


def statements(app, number):
    """Return how many statements a request takes, once what is remembered has been read."""
    ask = {"request_spec": spec(instance(number)), "claim": False}
    app.post_json("/scheduler/v1/select_destinations", ask)
    with counted(app.app.services.database) as seen:
        app.post_json("/scheduler/v1/select_destinations", ask)
    return seen


def test_one_statement_asks_for_closed_cells_and_only_where_hosts_have_cells(cloud):
    record(cloud, *(NovaCell(uuid=f"c0000000-0000-0000-0000-{n:012}") for n in range(50)))
    lose(cloud, TWO, 5)
    assert sum("sched_cells" in one for one in statements(cloud, 1)) == 1
    cloud.post_json("/scheduler/v1/compute_nodes", [report("cn1"), report("cn2")])
    assert sum("sched_cells" in one for one in statements(cloud, 2)) == 0
