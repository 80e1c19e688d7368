# SPDX-License-Identifier: Apache-2.0
"""Adoption of a nova, and synchronization with its databases, at the command line."""

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest

from placement_sched.cli.main import main
from tests.support.nova_clouds import NovaCloud, create_sqlite_nova, seconds_ago


@pytest.fixture
def nova(tmp_path: Path) -> Iterator[NovaCloud]:
    """Two nova cells. own.conf names a database that does not exist yet."""
    cloud = create_sqlite_nova(tmp_path, "one", "two")
    (tmp_path / "nova.conf").write_text(f"[api_database]\nconnection = {cloud.api.url}\n")
    ours = f"[placement_database]\nconnection = sqlite:///{tmp_path / 'ours.db'}\n"
    (tmp_path / "own.conf").write_text(ours)
    yield cloud
    cloud.close()


class CommandResult:
    """Output and exit status of a command."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture
def run_command(tmp_path: Path, nova: NovaCloud, capsys) -> Callable[..., CommandResult]:
    """Return a function that runs a command with both configuration files."""
    files = [part for name in ("nova", "own") for part in ("--config-file", f"{name}.conf")]

    def run_command(*arguments: str) -> CommandResult:
        options = [str(tmp_path / part) if part.endswith(".conf") else part for part in files]
        status = main([*arguments, *options])
        return CommandResult(status, *capsys.readouterr())

    return run_command


pytestmark = pytest.mark.slow


def test_nova_adopt_records_objects_of_nova_and_prints_problems(run_command, nova):
    nova.add_host("cn1", disabled=True, disabled_reason="mend it")
    nova.add_host("cn2", "two", last_seen_up=seconds_ago(500))
    broken = nova.add_host("cn3", "two", stats="{")
    nova.api.remove("host_mappings", host="cn2")
    uuid = nova.add_instance("cn1")
    rows_before = nova.rows()
    result = run_command("nova", "adopt")
    assert (result.status, result.err) == (0, "")
    unread = f"compute node cn3 ({broken}) of cell two: its record is not updated"
    room = "instances without allocations, so that their capacity may be allocated again"
    for line in (
        f"{unread}: the string is not JSON (at $.stats)",
        "host cn2: it is mapped to no cell: run nova-manage cell_v2 discover_hosts",
        "disabled hosts: 1 (cn1 (mend it))",
        "    openstack compute service set --enable HOST nova-compute",
        "hosts down, without a heartbeat for [DEFAULT] service_down_time: 1 (cn2)",
        "compute nodes without a resource provider, so that nothing is placed there: 2 (cn1, cn2)",
        f"{room}: 1 ({uuid})",
    ):
        assert f"{line}\n" in result.out
    assert nova.rows() == rows_before
    assert run_command("nova", "sync", "--check").status == 0


def test_json_of_nova_adopt_has_all_names_of_each_problem(run_command, nova):
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


def test_nova_adopt_with_an_unavailable_cell_exits_with_3(run_command, nova, tmp_path):
    nova.add_host("cn1")
    (tmp_path / "nova_two.db").rename(tmp_path / "away.db")
    done = run_command("nova", "adopt")
    assert (done.status, done.err) == (3, "")
    assert "cell two: its database does not answer" in done.out


def test_nova_adopt_without_hosts_prints_no_problems(run_command, nova):
    nova.add_group("pair")
    assert "everything fits\n" in run_command("nova", "adopt").out
    nova.add_aggregate(str(uuid4()))
    assert "host aggregates     1    1" in run_command("nova", "adopt").out


def test_nova_sync_check_lists_differences_and_writes_nothing(run_command, nova, tmp_path):
    assert "ours.db does not exist" in run_command("nova", "sync", "--check").err
    assert not (tmp_path / "ours.db").exists()
    run_command("nova", "sync")
    node = nova.add_host("cn1")
    uuid = nova.add_instance("cn1")
    rows_before = nova.rows()
    for _ in range(2):
        result = run_command("nova", "sync", "--check")
        assert result.status == 1
        assert "+ compute node cn1\n" in result.out
        assert f"+ instance {uuid}\n" in result.out
        assert result.out.endswith("ours.db: 3 differences, nothing was written\n")
    assert run_command("nova", "sync").status == 0
    assert run_command("nova", "sync", "--check").out.endswith(
        "no differences, nothing was written\n"
    )
    nova.cells["one"].change("compute_nodes", {"uuid": node}, vcpus_used=9)
    nova.cells["one"].delete_softly("instances", uuid=uuid)
    result = run_command("nova", "sync", "--check")
    assert f"- instance {uuid}\n" in result.out
    assert "~ compute node cn1: " in result.out
    assert {"api", "cell0", "one", "two"} == rows_before.keys()


def test_json_of_nova_sync_check_has_counts_and_differences(run_command, nova):
    run_command("nova", "sync")
    nova.add_host("cn1")
    result = run_command("nova", "sync", "--check", "--format", "json")
    document = result.json
    assert (result.status, document["code"], document["check"]) == (1, 1, True)
    assert document["read"]["compute nodes"] == {"read": 1, "new": 1, "changed": 0, "gone": 0}
    assert {"noun": "compute nodes", "change": "new", "name": "cn1", "fields": []} in document[
        "differences"
    ]
    assert (document["differing"], document["away"], document["misfits"]) == (2, [], [])


def test_nova_sync_prints_the_number_of_written_records(run_command, nova):
    nova.add_host("cn1")
    done = run_command("nova", "sync")
    assert done.status == 0
    lines = done.out.splitlines()
    assert lines[0].split() == ["read", "new", "changed", "gone"]
    assert ["compute", "nodes", "1", "1", "0", "0"] in [line.split() for line in lines]
    assert "ours.db: 4 brought up to date in " in lines[-1]
    assert "ours.db: was up to date in " in run_command("nova", "sync").out


def count_unavailable_cells(folder):
    """Return the number of cells that are recorded as away."""
    with closing(sqlite3.connect(folder / "ours.db")) as database:
        query = "SELECT count(*) FROM sched_cells WHERE away_since IS NOT NULL"
        return database.execute(query).fetchone()[0]


def test_nova_sync_with_an_unavailable_cell_exits_with_3(run_command, nova, tmp_path):
    nova.add_host("cn1")
    nova.add_host("cn2", "two")
    run_command("nova", "sync")
    (tmp_path / "nova_two.db").rename(tmp_path / "away.db")
    assert run_command("nova", "sync", "--check").status == 3
    assert count_unavailable_cells(tmp_path) == 0
    done = run_command("nova", "sync")
    assert done.status == 3
    assert count_unavailable_cells(tmp_path) == 1
    assert "cell two: its database does not answer" in done.out
    assert done.err == ""
    assert run_command("nova", "sync", "--check").status == 3
    nova.cells["one"].delete_softly("compute_nodes", host="cn1")
    assert run_command("nova", "sync", "--check").status == 1


def test_nova_sync_without_the_api_database_exits_with_2(run_command, nova, tmp_path):
    (tmp_path / "nova_api.db").rename(tmp_path / "away.db")
    done = run_command("nova", "sync")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("placement-sched: nova's API database does not answer: ")
    assert done.err.count("\n") == 1


def test_nova_adopt_names_a_database_that_is_not_novas(run_command, nova, tmp_path):
    shutil.copy(tmp_path / "nova_two.db", tmp_path / "nova_api.db")
    done = run_command("nova", "adopt")
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith(
        "placement-sched: [api_database] connection: the configured database is not nova's API "
        "database: no such table: cell_mappings"
    )
    assert done.err.count("\n") == 1


def test_nova_sync_without_api_database_url_is_an_error(tmp_path, capsys):
    own = tmp_path / "own.conf"
    own.write_text("[placement_database]\nconnection = sqlite://\n")
    for command, status in ((["nova", "sync"], 2), (["nova", "adopt"], 1)):
        assert main([*command, "--config-file", str(own)]) == status
        assert capsys.readouterr().err == (
            "placement-sched: [api_database] connection is not set: name nova's nova.conf with "
            "--config-file\n"
        )


def test_nova_sync_without_placement_url_is_an_error(nova, tmp_path, monkeypatch, capsys):
    """Otherwise the command would create a database in the working directory."""
    monkeypatch.chdir(tmp_path)
    assert main(["nova", "sync", "--config-file", "nova.conf"]) == 2
    assert capsys.readouterr().err == (
        "placement-sched: [placement_database] connection is not set: name this service's database "
        "in a second --config-file\n"
    )
    assert not (tmp_path / "placement_sched.db").exists()
