# SPDX-License-Identifier: Apache-2.0
"""Missing databases of commands that follow nova."""

import pytest

from placement_sched.cli.main import main

pytestmark = pytest.mark.slow


def test_unavailable_api_database_is_reported_in_one_line(run_command, nova, tmp_path):
    (tmp_path / "nova_api.db").rename(tmp_path / "away.db")
    done = run_command("nova", "sync")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("placement-sched: nova's API database does not answer: ")
    assert done.err.count("\n") == 1


def test_config_without_nova_is_reported_in_one_line(tmp_path, capsys):
    own = tmp_path / "own.conf"
    own.write_text("[placement_database]\nconnection = sqlite://\n")
    for command, status in ((["nova", "sync"], 2), (["nova", "adopt"], 1)):
        assert main([*command, "--config-file", str(own)]) == status
        assert capsys.readouterr().err == (
            "placement-sched: [api_database] connection is not set: name nova's nova.conf with "
            "--config-file\n"
        )


def test_config_without_placement_database_is_reported_in_one_line(
    nova, tmp_path, monkeypatch, capsys
):
    """Otherwise the command would create a database in the working directory."""
    monkeypatch.chdir(tmp_path)
    assert main(["nova", "sync", "--config-file", "nova.conf"]) == 2
    assert capsys.readouterr().err == (
        "placement-sched: [placement_database] connection is not set: name this service's database "
        "in a second --config-file\n"
    )
    assert not (tmp_path / "placement_sched.db").exists()
