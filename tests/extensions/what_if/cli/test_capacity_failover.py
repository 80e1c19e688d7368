# SPDX-License-Identifier: Apache-2.0
"""``capacity --host-failures`` with direct access to the database."""

import json
from functools import partial

import pytest

from tests.support.api_clouds import make_zone, place_instance_on_host, report_hosts_with_instances
from tests.support.scheduling import make_flavor, make_spec, make_uuid, select_hosts

pytestmark = pytest.mark.slow


@pytest.fixture
def run_failover_capacity(sqlite_app, run_cli):
    """Return a function that runs the command on two hosts, and returns status and output."""
    report_hosts_with_instances(sqlite_app, ["cn1", "cn2"], ["cn1", "cn1", "cn2"])
    place_instance_on_host(sqlite_app, 9, "cn2", flavor="large")
    return partial(run_cli, "capacity")


def test_hosts_without_failover_capacity_are_printed_with_the_missing_amount(run_failover_capacity):
    status, printed, _ = run_failover_capacity("--host-failures", "1")
    assert status == 0
    lines = printed.splitlines()
    assert lines[0] == "If a host fails: 0 covered, 2 uncovered, 0 undetermined"
    (row,) = [line.split() for line in lines if line.startswith("cn2")]
    assert row[0:2] == ["cn2", "2"]
    assert row[-3:] == ["MEMORY_MB", "2", "GiB"]
    assert "(large)" in printed  # below the uuid if the terminal is narrow
    assert any(line.split()[:2] == ["small", "0"] for line in lines)


def test_failover_capacity_as_json_equals_the_api_response(run_failover_capacity, sqlite_app):
    _, printed, _ = run_failover_capacity("--host-failures", "2", "--within", "zone", "-f", "json")
    body = {"host_failures": 2, "within": "zone"}
    response = sqlite_app.post_json("/scheduler/v1/failover_capacity", body).json
    changing = dict.fromkeys(("duration", "computed_at"))
    assert {**json.loads(printed), **changing} == {**response, **changing}


def test_value_format_has_a_row_for_each_instance_that_fits_no_other_host(run_failover_capacity):
    arguments = ("--host-failures", "1", "-f", "value", "-c", "Fails", "-c", "Flavor")
    _, printed, _ = run_failover_capacity(*arguments)
    assert "cn2 large" in printed.splitlines()


def test_invalid_failover_capacity_options_are_reported_by_name(run_failover_capacity):
    status, _, error = run_failover_capacity("--within", "zon")
    assert status == 1
    assert "--within: no aggregate has the metadata key 'zon'" in error
    assert "Did you mean 'zone'?" in error
    status, _, error = run_failover_capacity("small", "--host-failures", "1")
    assert status == 2
    assert "FLAVOR cannot be combined with --host-failures or --within" in error
    _, _, error = run_failover_capacity("--host-failures", "1", "--vcpus", "1")
    assert "--vcpus cannot be combined with --host-failures or --within" in error
    status, _, error = run_failover_capacity("--host-failures", "11")
    assert status == 1
    assert "--host-failures: 11 is greater than the maximum of 10" in error


def test_unknown_facts_are_printed_with_the_failover_capacity(sqlite_app, run_failover_capacity):
    path = f"/scheduler/v1/instances/{make_uuid(8)}"
    body = {"host": "cn1", "node": "cn1", "flavor": make_flavor()}
    sqlite_app.put_json(path, {**body, "request": {"availability_zone": None}})
    status, printed, _ = run_failover_capacity("--host-failures", "1")
    facts = "scheduler hints, root disk (local or volume) and port resources of 1 server"
    assert (status, f"{facts} are not known and not considered" in printed) == (0, True)


def test_reasons_without_a_place_name_aggregates(sqlite_app, run_cli):
    report_hosts_with_instances(sqlite_app, ["cn1", "cn2"], [])
    make_zone(sqlite_app, "north", "cn1")
    select_hosts(sqlite_app, make_spec(make_uuid(1), availability_zone="north"))
    status, printed, _ = run_cli("capacity", "--host-failures", "1")
    assert (status, "member_of in:agg-north" in " ".join(printed.split())) == (0, True)
