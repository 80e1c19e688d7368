# SPDX-License-Identifier: Apache-2.0
"""``plugin check`` and ``plugin list``."""

import json

from placement_sched.cli.main import main

FILTER_MODULE_TEXT = """
from placement_sched.scheduler import filters


class CheckedFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        return {expression}
"""


def run_plugin_command(capsys, *arguments):
    status = main(["plugin", *arguments])
    return status, capsys.readouterr().out


def test_plugin_check_prints_whether_each_plugin_runs_or_fails(capsys, tmp_path):
    (tmp_path / "acme_cli_right.py").write_text(FILTER_MODULE_TEXT.format(expression="True"))
    (tmp_path / "acme_cli_wrong.py").write_text(
        FILTER_MODULE_TEXT.format(expression="host_state.none")
    )
    status, text = run_plugin_command(capsys, "check", str(tmp_path))
    right, wrong = text.splitlines()
    assert status == 1
    assert right == f"{tmp_path}/acme_cli_right.py: acme_cli_right.CheckedFilter: runs"
    assert "acme_cli_wrong.CheckedFilter: fails for a plain request" in wrong
    file = str(tmp_path / "acme_cli_right.py")
    status, text = run_plugin_command(capsys, "check", file, "--format", "json")
    assert status == 0
    assert [finding["state"] for finding in json.loads(text)] == ["runs"]


def test_plugin_check_reports_a_syntax_error_once(capsys, tmp_path):
    file = tmp_path / "acme_cli_old.py"
    file.write_text("\nprint 'x'\n")
    status, text = run_plugin_command(capsys, "check", str(file))
    assert status == 1
    (line,) = text.splitlines()
    assert line.startswith(f"{file}:2: syntax: ")


def test_plugin_check_reports_a_missing_module_in_one_line(capsys):
    status, text = run_plugin_command(capsys, "check", "acme_nowhere.Filter")
    assert status == 1
    assert text.startswith("acme_nowhere.Filter: import: acme_nowhere.Filter cannot be imported: ")


def test_plugin_list_shows_the_enabled_plugins(capsys):
    status, text = run_plugin_command(capsys, "list")
    assert status == 0
    assert "ComputeFilter" in text
    rows = json.loads(run_plugin_command(capsys, "list", "--format", "json")[1])
    assert {row["kind"] for row in rows} == {"request filter", "filter", "weigher"}
    (compute,) = [row for row in rows if row["name"] == "ComputeFilter"]
    assert compute["path"] == "placement_sched.scheduler.filters.compute_filter.ComputeFilter"
    assert compute["interface"] == "placement_sched"


def test_plugin_check_names_a_test_that_it_leaves_out(capsys, tmp_path):
    (file := tmp_path / "gate_test.py").write_text("raise SystemExit('imported')\n")
    assert main(["plugin", "check", str(file)]) == 1
    assert capsys.readouterr().out == f"{file}: left out: a test\n"
