# SPDX-License-Identifier: Apache-2.0
"""Benchmarks run without the peer, or report that it is missing."""

import os
import shutil
import sys

import pytest

from tests.support.commands import run_captured
from tests.support.repository import ROOT

pytestmark = pytest.mark.exhaustive


def run_benchmark(script, *arguments, folder=ROOT, **variables):
    return run_captured(
        [sys.executable, f"bench/{script}.py", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
    )


@pytest.mark.parametrize(
    "script", [*("candidates", "writes", "fleet", "schedulers", "race"), *("selecting", "nova_rpc")]
)
def test_benchmark_reports_missing_openstack_placement(script, tmp_path):
    python = tmp_path / "python"
    result = run_benchmark(script, "--quick", PLACEMENT_SCHED_PEER_PYTHON=str(python))
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr == (
        f"there is no {python}: make peer installs openstack-placement and nova\n"
    )


def test_benchmark_reports_an_unknown_database():
    result = run_benchmark("candidates", "--database", "postgresql,oracle")
    assert result.returncode == 2
    assert result.stderr.endswith(
        "--database: not oracle, but postgresql, mariadb, sqlite, galera\n"
    )


@pytest.mark.parametrize(
    ("scenario", "size"),
    [("flat", 60), ("nested", 60), ("shared", 60), ("reads", 60), ("growth", "40:60")],
)
def test_candidates_benchmark_prints_a_table_for_each_scenario(scenario, size, tmp_path):
    shutil.copytree(ROOT / "bench", tmp_path / "bench", ignore=shutil.ignore_patterns("out"))
    measured = run_benchmark(
        *("candidates", "--only", scenario, "--rounds", "1", "--no-peer", "--database", "sqlite"),
        *("--sizes", f"{scenario}={size}"),
        folder=tmp_path,
    )
    assert measured.returncode == 0, measured.stderr
    heading, _rule, *rows = [line for line in measured.stdout.splitlines() if line[:2] == "| "]
    assert heading.startswith("| hosts |" if scenario == "growth" else "| query |")
    assert rows
    assert "WRONG" not in measured.stdout
    assert (tmp_path / "bench" / "out" / "report.md").exists()


@pytest.mark.parametrize(
    ("script", "options"),
    [
        ("fleet", ["--hosts", "20", "--rounds", "1", "--seconds", "1"]),
        ("fleet", ["--hosts", "20", "--rounds", "1", "--seconds", "1", "--world", "nested"]),
        ("schedulers", ["--hosts", "1", "--schedulers", "1", "2"]),
    ],
)
def test_fleet_and_scheduler_benchmarks_print_tables(script, options, tmp_path):
    shutil.copytree(ROOT / "bench", tmp_path / "bench", ignore=shutil.ignore_patterns("out"))
    measured = run_benchmark(
        *(script, *options, "--no-peer", "--database", "sqlite"), folder=tmp_path
    )
    assert measured.returncode == 0, measured.stdout + measured.stderr
    assert "| ours | " in measured.stdout
