# SPDX-License-Identifier: Apache-2.0
"""``nova sync``: listed differences, written records and exit status."""

import sqlite3
from contextlib import closing

import pytest

pytestmark = pytest.mark.slow


def test_check_lists_each_difference_and_writes_nothing(run_command, nova, tmp_path):
    assert "there is no database" in run_command("nova", "sync", "--check").err
    assert not (tmp_path / "ours.db").exists()
    run_command("nova", "sync")
    node = nova.add_host("cn1")
    uuid = nova.add_instance("cn1")
    before = nova.rows()
    for _ in range(2):
        result = run_command("nova", "sync", "--check")
        assert result.status == 1
        assert "+ compute node cn1\n" in result.out
        assert f"+ instance {uuid}\n" in result.out
        assert result.out.endswith("ours.db: 3 differences; nothing was written\n")
    assert run_command("nova", "sync").status == 0
    assert run_command("nova", "sync", "--check").out.endswith(
        "no differences; nothing was written\n"
    )
    nova.cells["one"].change("compute_nodes", {"uuid": node}, vcpus_used=9)
    nova.cells["one"].delete_softly("instances", uuid=uuid)
    result = run_command("nova", "sync", "--check")
    assert f"- instance {uuid}\n" in result.out
    assert "~ compute node cn1: " in result.out
    assert {"api", "cell0", "one", "two"} == before.keys()


def test_json_has_counts_and_differences(run_command, nova):
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


def test_sync_reports_the_number_of_written_records(run_command, nova):
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


def test_unavailable_cell_is_reported_with_its_own_exit_status(run_command, nova, tmp_path):
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
