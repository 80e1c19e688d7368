# SPDX-License-Identifier: Apache-2.0
"""The commands of the plugin in the unmodified ``openstack`` client."""

import pytest

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def client(openstack_client):
    with openstack_client.start_process() as client:
        yield client


SIZE_OPTIONS = ("--vcpus", "1", "--ram", "512", "--disk", "1")


def test_openstack_scheduler_host_list_has_the_formats_of_the_client(client, hosts):
    listed = client.json("scheduler", "host", "list", "--sort-column", "Host")
    assert [row["Host"] for row in listed] == sorted(hosts)
    assert listed[0]["Free memory"] == 16384
    assert "16 GiB" in client.run("scheduler", "host", "list").stdout
    value = client.run("scheduler", "host", "show", "cn1", "-f", "value", "-c", "Zone")
    assert value.stdout == "nova\n"


def test_openstack_scheduler_explain_prints_the_stages_of_a_request(client, hosts):
    rows = client.json(
        "scheduler", "explain", *SIZE_OPTIONS, "--property", "trait:CUSTOM_LICENSED=required"
    )
    (licensed,) = [row for row in rows if row["Stage"] == "required CUSTOM_LICENSED"]
    assert (licensed["In"], licensed["Out"]) == (len(hosts), 2)


def test_openstack_scheduler_select_records_a_decision(client, hosts):
    (selection,) = client.json("scheduler", "select", *SIZE_OPTIONS, "--no-claim")
    assert selection["Host"] in hosts
    decision = client.json("scheduler", "decision", "list", "--limit", "1")[0]
    assert decision["Hosts"] == [selection["Host"]]
    shown = client.json("scheduler", "decision", "show", decision["Decision"])
    assert shown["Outcome"] == "selected"
    assert client.json("scheduler", "decision", "replay", decision["Decision"]) == []


def test_openstack_scheduler_commands_print_capacity_plan_and_policies(client, hosts):
    (capacity,) = client.json("scheduler", "capacity", *SIZE_OPTIONS)
    assert capacity["Fit"] > 0
    assert client.json("scheduler", "plan", "--change", "drain=cn1") == []
    (policy,) = client.json("scheduler", "policy", "list")
    options = client.json("scheduler", "policy", "show", policy["Policy"])
    assert {"Option", "Value", "From", "Place"} == set(options[0])


@pytest.mark.usefixtures("hosts")
def test_openstack_scheduler_error_is_reported_in_one_line(client):
    done = client.run("scheduler", "host", "show", "cn")
    assert done.returncode == 1
    assert done.stderr.startswith("there is no host 'cn'; did you mean")
    assert client.json("scheduler", "host", "list", "--zone", "x") == []
