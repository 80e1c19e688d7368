# SPDX-License-Identifier: Apache-2.0
"""``rebalance``: advice on moves at the command line."""

import json

import pytest

from tests.cli.conftest import copy_filled_database
from tests.support.api_clouds import COMPUTE_HEADERS
from tests.support.scheduling import make_flavor, make_report, make_spec, make_uuid, select_hosts
from tests.support.statements import execute_statements

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sqlite_template(sqlite_template, tmp_path_factory):
    """Two hosts of 8 GB with an instance of 3 GB each."""
    return copy_filled_database(sqlite_template, tmp_path_factory.mktemp("cloud"), add_instances)


def add_instances(app):
    reports = [make_report(name, memory_mb=8192) for name in ("cn1", "cn2")]
    app.post_json("/scheduler/v1/compute_nodes", reports)
    for at, host in enumerate(("cn1", "cn2"), 1):
        select_hosts(
            app, make_spec(make_uuid(at), flavor=make_flavor(memory_mb=3072), force_hosts=[host])
        )
    large = {"name": "m1.large", "vcpus": 1, "ram": 6144, "disk": 1}
    app.post_json("/compute/v2.1/flavors", {"flavor": large}, headers=COMPUTE_HEADERS)


def test_rebalance_prints_moves_that_make_room_for_a_flavor(run_cli):
    status, out, err = run_cli("rebalance", "m1.large")
    assert (status, err) == (0, "")
    assert "frees capacity on cn1" in out
    assert out.endswith("it fits on cn1 after the moves\n")


def test_rebalance_prints_moves_as_json(run_cli):
    out = run_cli("rebalance", "--goal", "pack", "--moves", "1", "--format", "json")[1]
    document = json.loads(out)
    assert (document["reached"], len(document["moves"])) == (True, 1)


def test_rebalance_lists_servers_whose_violations_remain(sqlite_app, run_cli):
    command = ("rebalance", "--goal", "comply")
    status, out, err = run_cli(*command)
    assert (status, out, err) == (0, "no server violates a rule\n", "")
    execute_statements(
        sqlite_app.app.services.database,
        "UPDATE inventories SET reserved = total - 1024 WHERE resource_class_id = 1",
    )
    status, out, err = run_cli(*command)
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert (lines[0], lines[-1]) == ("Stuck: 2", "no moves end 2 violations")
    assert make_uuid(1) in out
    assert make_uuid(2) in out
    stuck = json.loads(run_cli(*command, "-f", "json")[1])["stuck"]
    assert [each["reason"].partition(":")[0] for each in stuck] == ["over capacity"] * 2
    rows = run_cli(*command, "-f", "csv", "-c", "From", "-c", "To")[1].splitlines()
    assert rows == ['"From","To"', '"cn1",""', '"cn2",""']


@pytest.mark.parametrize(
    ("arguments", "expected_status", "words"),
    [
        (["m1.larg"], 1, "Did you mean 'm1.large'?"),
        ([], 2, "--goal fit needs a FLAVOR"),
        (["--goal", "compyl"], 2, "there is no --goal 'compyl'. Did you mean 'comply'?"),
        (["m1.large", "--goal", "comply"], 2, "--goal comply does not accept FLAVOR or --zone"),
        (["m1.large", "--goal", "pack"], 2, "--goal pack does not accept FLAVOR or --zone"),
    ],
)
def test_invalid_goal_of_rebalance_is_reported_in_one_line(
    run_cli, arguments, expected_status, words
):
    status, out, err = run_cli("rebalance", *arguments)
    assert (status, out) == (expected_status, "")
    (line,) = err.splitlines()
    assert words in line
