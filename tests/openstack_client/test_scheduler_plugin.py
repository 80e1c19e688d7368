# SPDX-License-Identifier: Apache-2.0
"""The commands of the plugin in the unmodified ``openstack`` client."""

import pytest

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def client(openstack_client):
    with openstack_client.start_process() as client:
        yield client


SIZE_OPTIONS = ("--vcpus", "1", "--ram", "512", "--disk", "1")


def test_openstack_scheduler_host_list_has_the_formats_of_the_client(client, reported_hosts):
    listed = client.get_json("scheduler", "host", "list", "--sort-column", "Host")
    assert [row["Host"] for row in listed] == sorted(reported_hosts)
    assert listed[0]["Free memory"] == 16384
    assert "16 GiB" in client.run("scheduler", "host", "list").stdout
    value = client.run("scheduler", "host", "show", "cn1", "-f", "value", "-c", "Zone")
    assert value.stdout == "nova\n"


def test_openstack_scheduler_explain_prints_the_stages_of_a_request(client, reported_hosts):
    rows = client.get_json(
        "scheduler", "explain", *SIZE_OPTIONS, "--property", "trait:CUSTOM_LICENSED=required"
    )
    (licensed,) = [row for row in rows if row["Stage"] == "required CUSTOM_LICENSED"]
    assert (licensed["In"], licensed["Out"]) == (len(reported_hosts), 2)


def test_openstack_scheduler_explain_prints_the_report_of_placement_sched(client, reported_hosts):
    done = client.run("scheduler", "explain", *SIZE_OPTIONS)
    assert f"{len(reported_hosts)} hosts passed  policy default\n" in done.stdout
    assert "Best 3 of " in done.stdout
    arguments = (
        *SIZE_OPTIONS,
        "--property",
        "trait:HW_GPU_API_VULKAN=required",
        "--fail-on-no-host",
    )
    done = client.run("scheduler", "explain", *arguments)
    assert done.returncode == 1
    assert "No valid host  " in done.stdout
    assert "not reached: " in done.stdout
    table = client.run("scheduler", "explain", *SIZE_OPTIONS, "-c", "Stage", "-c", "Out").stdout
    assert table.startswith("+-")


def test_openstack_scheduler_select_records_a_decision(client, reported_hosts):
    (selection,) = client.get_json("scheduler", "select", *SIZE_OPTIONS, "--no-claim")
    assert selection["Host"] in reported_hosts
    decision = client.get_json("scheduler", "decision", "list", "--limit", "1")[0]
    assert decision["Hosts"] == [selection["Host"]]
    shown = client.get_json("scheduler", "decision", "show", decision["Decision"])
    assert shown["Outcome"] == "selected"
    replay = ("scheduler", "decision", "replay", decision["Decision"])
    assert client.get_json(*replay) == []
    assert "nothing differs\n" in client.run(*replay).stdout


def test_openstack_scheduler_commands_print_capacity_plan_and_policies(client, reported_hosts):
    (capacity,) = client.get_json("scheduler", "capacity", *SIZE_OPTIONS)
    assert capacity["Fit"] > 0
    assert " more fit\n" in client.run("scheduler", "capacity", *SIZE_OPTIONS).stdout
    done = client.run("scheduler", "violation", "list")
    assert "The violations were not computed yet" in done.stderr
    plan = ("scheduler", "plan", "--change", "drain=cn1")
    assert client.get_json(*plan) == []
    assert "no instance has to move\n" in client.run(*plan).stdout
    client.run("compute", "service", "set", "--down", "cn1", "nova-compute")
    evacuation = ("scheduler", "host", "evacuate", "cn1")
    assert client.get_json(*evacuation) == []
    assert "no instance has to move\n" in client.run(*evacuation).stdout
    client.run("compute", "service", "set", "--up", "cn1", "nova-compute")
    assert "is up, and only a host that is down" in client.run(*evacuation).stderr
    (policy,) = client.get_json("scheduler", "policy", "list")
    options = client.get_json("scheduler", "policy", "show", policy["Policy"])
    assert {"Option", "Value", "From", "Place"} == set(options[0])


def test_openstack_scheduler_load_reads_the_server(client, reported_hosts):
    """The server has no queries, so that its hosts have no values."""
    assert client.get_json("scheduler", "load", "list") == []
    assert client.get_json("scheduler", "load", "show", reported_hosts[0]) == []
    assert client.get_json("scheduler", "load", "check") == []
    done = client.run("scheduler", "load", "check")
    assert done.stdout.startswith("[load] has no host_queries: no load is collected\n")


@pytest.mark.usefixtures("reported_hosts")
def test_openstack_scheduler_error_is_reported_in_one_line(client):
    done = client.run("scheduler", "host", "show", "cn")
    assert done.returncode == 1
    assert done.stderr.startswith("there is no host 'cn'. Did you mean")
    assert client.get_json("scheduler", "host", "list", "--zone", "x") == []
