# SPDX-License-Identifier: Apache-2.0
"""``plan``: changes from a file or from options, and the moves that follow."""

import json

import pytest

from tests.cli.conftest import copy_filled_database
from tests.support.api_clouds import (
    AGGREGATES_PATH,
    COMPUTE_HEADERS,
    create_aggregate_with_metadata,
)
from tests.support.scheduling import make_report, make_spec, make_uuid, select_hosts

pytestmark = pytest.mark.slow

#: The move of the only instance, which has no name of its own.
MOVE = {"instance": make_uuid(1), "from": "cn1", "to": "cn2", "name": make_uuid(1)}


@pytest.fixture(scope="module")
def sqlite_template(sqlite_template, tmp_path_factory):
    """Two hosts, with an instance on cn1."""
    return copy_filled_database(
        sqlite_template, tmp_path_factory.mktemp("cloud"), report_hosts_and_place_instance
    )


def report_hosts_and_place_instance(app):
    app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1"), make_report("cn2")])
    select_hosts(app, make_spec(make_uuid(1), force_hosts=["cn1"]))


def test_plan_for_a_file_of_changes_lists_the_moves(run_cli, tmp_path):
    (tmp_path / "changes.yaml").write_text("- drain: [cn1]\n")
    status, out, err = run_cli("plan", str(tmp_path / "changes.yaml"))
    assert (status, err) == (0, "")
    assert "Moves, in this order: 1" in out
    assert "1 instance would move to 1 host, 0 could not" in out


def test_plan_drains_the_hosts_of_an_aggregate(run_cli, sqlite_app):
    aggregate = {"aggregate": {"name": "racks", "availability_zone": None}}
    response = sqlite_app.post_json("/compute/v2.1/os-aggregates", aggregate).json["aggregate"]
    change = ("plan", "--format", "json", "--change")
    status, _, error = run_cli(*change, "drain=aggregate:racks")
    assert status == 1
    assert "--change drain=aggregate:racks: aggregate racks has no hosts" in error
    path = f"/compute/v2.1/os-aggregates/{response['id']}/action"
    sqlite_app.post_json(path, {"add_host": {"host": "cn1"}})
    for hosts in ("aggregate:racks", "aggregate:racks,cn1"):
        document = json.loads(run_cli(*change, f"drain={hosts}")[1])
        assert document["moves"] == [MOVE]
    error = run_cli(*change, "remove=aggregate:rack")[2]
    assert "there is no aggregate 'rack'. Did you mean 'racks'?" in error
    words = ("--vcpus", "1", "--change", "drain=aggregate:racks", "--format", "json")
    document = json.loads(run_cli("explain", *words)[1])
    assert [host["host"] for host in document["hosts"]] == ["cn2"]


def test_plan_is_printed_as_json(run_cli):
    document = json.loads(run_cli("plan", "--change", "drain=cn1", "--format", "json")[1])
    assert document["moves"] == [MOVE]
    assert document["stuck"] == []


def test_plan_applies_overrides_of_file_and_options(run_cli, tmp_path):
    isolating = 'filter_scheduler.enabled_filters=["IsolatedHostsFilter"]'
    hosts = "filter_scheduler.isolated_hosts"
    drained = ("plan", "--change", "drain=cn1", "--override", isolating)
    assert "1 instance would move" in run_cli(*drained)[1]
    out = run_cli(*drained, "--override", f'{hosts}=["cn2"]')[1]
    assert "0 instances would move, 1 could not" in out
    file = tmp_path / "changes.yaml"
    file.write_text(
        "changes: [{drain: [cn1]}]\n"
        f"overrides: {{filter_scheduler.enabled_filters: [IsolatedHostsFilter], {hosts}: [cn2]}}\n"
    )
    assert "0 instances would move, 1 could not" in run_cli("plan", str(file))[1]
    # The option overrides the file.
    assert "1 instance would move" in run_cli("plan", str(file), "--override", f"{hosts}=[]")[1]
    assert "IsolatedHostsFilter" in run_cli("explain", "--vcpus", "1", "--changes", str(file))[1]


def test_instances_that_no_planned_move_can_place_are_printed_with_the_reason(run_cli):
    out = run_cli("plan", "--change", "drain=cn1,cn2")[1]
    assert "Stuck: 1" in out
    assert "0 instances would move, 1 could not" in out


def test_plan_without_moves_prints_that_no_instance_has_to_move(run_cli):
    assert run_cli("plan", "--change", "add=cn1")[1].endswith("no instance has to move\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "changes: [drain: [cn1]]\noverrides: 5",
            "changes:2: overrides: expected GROUP.OPTION: VALUE",
        ),
        (
            "changes: [drain: [cn1]]\noverrides: {filter_scheduler.nope: 5}",
            "changes:2: overrides: there is no option 'filter_scheduler.nope'",
        ),
    ],
)
def test_invalid_plan_is_reported_in_one_line(run_cli, tmp_path, text, words):
    (tmp_path / "changes").write_text(text)
    status, out, err = run_cli("plan", str(tmp_path / "changes"))
    assert (status, out) == (1, "")
    (line,) = err.splitlines()
    assert words in line


def test_plan_without_changes_ends_with_status_2(run_cli):
    status, out, error = run_cli("plan")
    assert (status, out) == (2, "")
    assert error == "placement-sched: no changes: add a FILE of changes or --change\n"


def test_executed_plan_with_a_change_of_the_wrong_type_is_reported(run_cli, tmp_path):
    (tmp_path / "changes").write_text("- 5")
    status, _, error = run_cli("plan", str(tmp_path / "changes"), "--execute")
    assert (status, error.partition("changes:")[2]) == (1, "1: 5 is not an object\n")


def test_error_in_an_option_of_a_file_of_simulated_changes_names_the_line(run_cli, tmp_path):
    (tmp_path / "changes").write_text("overrides:\n  filter_scheduler.nope: 5")
    arguments = ("explain", "--vcpus", "1", "--changes", str(tmp_path / "changes"))
    assert "changes:1: overrides: there is no option" in run_cli(*arguments)[2]


def test_reason_of_a_stuck_instance_has_the_name_of_an_aggregate(run_cli, sqlite_app):
    number = create_aggregate_with_metadata(sqlite_app, "gold", **{"trait:CUSTOM_GOLD": "required"})
    action = {"add_host": {"host": "cn2"}}
    path = f"{AGGREGATES_PATH}/{number}/action"
    response = sqlite_app.post_json(path, action, headers=COMPUTE_HEADERS)
    uuid = response.json["aggregate"]["uuid"]
    override = "scheduler.enable_isolated_aggregate_filtering=true"
    drain = ("plan", "--change", "drain=cn1", "--override", override)
    assert "gold" in run_cli(*drain)[1]
    document = json.loads(run_cli(*drain, "--format", "json")[1])
    assert uuid in document["stuck"][0]["reason"]
