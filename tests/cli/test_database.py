# SPDX-License-Identifier: Apache-2.0
"""Commands without a reachable database: absent servers and missing files."""

import pytest

from placement_sched.cli import main as program

pytestmark = pytest.mark.slow


def test_unavailable_database_server_is_reported_with_the_driver_error(run_command):
    url = f"postgresql://nobody:{'geheim'}@127.0.0.1:1/nothing"
    refused = run_command("db", "version", OS_PLACEMENT_DATABASE__CONNECTION=url)
    assert refused.returncode == 1
    assert refused.stderr.startswith("placement-sched: the database does not answer: ")
    assert "refused" in refused.stderr
    assert "geheim" not in refused.stderr
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "status", "advice"),
    [
        (["fleet", "dump"], 1, ""),
        (["aggregate", "check"], 255, ""),
        (["placement", "audit"], 1, ""),
        (["placement", "heal_allocations"], 255, ""),
        (["explain", "--vcpus", "1"], 1, "query a server with --url or --os-cloud, "),
        (["placement", "sync_traits"], 255, "--url, --compute-url and --os-cloud use services, "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_read_only_command_creates_no_database_file(
    arguments, status, advice, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert program.main(arguments) == status
    assert capsys.readouterr().err == (
        f"placement-sched: the database placement_sched.db does not exist: {advice}name another "
        "with --config-file, or create it with placement-sched db sync\n"
    )
    assert list(tmp_path.iterdir()) == []
