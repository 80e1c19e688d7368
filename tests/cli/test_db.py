"""``db sync`` and ``db version`` on every database."""

import json
import sqlite3
from contextlib import closing

import pytest

from placement_sched.cli.main import main
from placement_sched.db.migrate import newest_revision


@pytest.fixture
def connection(database_url, monkeypatch):
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", database_url)


def test_sync_of_an_empty_directory_makes_the_embedded_database(run, tmp_path):
    done = run("db", "sync")
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout == (
        f"sqlite:///placement_sched.db: schema brought to revision {newest_revision()}\n"
    )
    with closing(sqlite3.connect(tmp_path / "placement_sched.db")) as made:
        ((traits,),) = made.execute("SELECT COUNT(*) FROM traits WHERE name = 'HW_CPU_X86_AVX2'")
    assert traits == 1


def test_sync_again_says_that_nothing_was_to_do(connection, capsys):
    assert main(["db", "sync", "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["before"] == report["revision"] == newest_revision()


def test_version_tells_both_revisions(connection, capsys):
    assert main(["db", "version", "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["revision"] == report["newest"] == newest_revision()


def test_version_of_a_database_without_our_schema_is_none(run):
    assert run("db", "version").stdout == (
        f"sqlite:///placement_sched.db: schema at revision none, newest {newest_revision()}\n"
    )


def test_password_is_not_shown(monkeypatch, capsys, postgresql_server):
    address = postgresql_server.partition("@")[2]
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", f"postgresql://root:geheim@{address}")
    assert main(["db", "version"]) == 0
    assert "geheim" not in capsys.readouterr().out


def test_no_url_of_a_database_is_refused_by_option_name(run):
    refused = run("db", "sync", OS_PLACEMENT_DATABASE__CONNECTION="nonsense")
    assert refused.returncode == 1
    assert refused.stderr == (
        "placement-sched: [placement_database] connection: not an SQLAlchemy database URL\n"
    )
