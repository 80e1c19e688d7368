# SPDX-License-Identifier: Apache-2.0
"""``nova adopt``: recorded objects, and misfits with their fixes."""

from uuid import uuid4

import pytest

from tests.support.nova_clouds import seconds_ago

pytestmark = pytest.mark.slow


def test_adopt_records_nova_and_reports_misfits_with_their_fix(run_command, nova):
    nova.add_host("cn1", disabled=True, disabled_reason="mend it")
    nova.add_host("cn2", "two", last_seen_up=seconds_ago(500))
    broken = nova.add_host("cn3", "two", stats="{")
    nova.api.remove("host_mappings", host="cn2")
    uuid = nova.add_instance("cn1")
    before = nova.rows()
    done = run_command("nova", "adopt")
    assert (done.status, done.err) == (0, "")
    unread = f"compute node cn3 ({broken}) of cell two: its record is not updated"
    room = "instances on a host without allocations, so that their capacity may be allocated again"
    for line in (
        f"{unread}: the string is not JSON (at $.stats)",
        "host cn2: it is mapped to no cell: run nova-manage cell_v2 discover_hosts",
        "disabled hosts: 1 (cn1 (mend it))",
        "    openstack compute service set --enable HOST nova-compute",
        "hosts down, without a heartbeat for [DEFAULT] service_down_time: 1 (cn2)",
        "compute nodes without a resource provider, so that nothing is placed there: 2 (cn1, cn2)",
        f"{room}: 1 ({uuid})",
    ):
        assert f"{line}\n" in done.out
    assert nova.rows() == before
    assert run_command("nova", "sync", "--check").status == 0


def test_json_lists_every_kind_of_record_by_name(run_command, nova):
    for number in range(12):
        nova.add_host(f"cn{number:02}", forced_down=True)
    done = run_command("nova", "adopt", "--format", "json")
    document = done.json
    assert (done.status, document["code"]) == (0, 0)
    misfits = {misfit["kind"]: misfit for misfit in document["unfit"]}
    assert misfits.keys() == {"service_forced_down", "node_without_provider"}
    assert misfits["service_forced_down"]["number"] == 12
    assert misfits["service_forced_down"]["names"] == [f"cn{number:02}" for number in range(12)]
    assert misfits["service_forced_down"]["remedy"].startswith("openstack compute service set --up")
    assert "12 (cn00, cn01, " in run_command("nova", "adopt").out
    assert "cn09 and 2 more)" in run_command("nova", "adopt").out


def test_unavailable_cell_is_reported_with_its_own_exit_status(run_command, nova, tmp_path):
    nova.add_host("cn1")
    (tmp_path / "nova_two.db").rename(tmp_path / "away.db")
    done = run_command("nova", "adopt")
    assert (done.status, done.err) == (3, "")
    assert "cell two: its database does not answer" in done.out


def test_empty_nova_has_no_misfits(run_command, nova):
    nova.add_group("pair")
    assert "everything fits\n" in run_command("nova", "adopt").out
    nova.add_aggregate(str(uuid4()))
    assert "host aggregates     1    1" in run_command("nova", "adopt").out
