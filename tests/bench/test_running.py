# SPDX-License-Identifier: Apache-2.0
"""The race of reads runs to its end against ours alone: servers, clouds, tables."""

import shutil

import pytest

from tests.bench.test_prerequisites import run_benchmark
from tests.support.repository import ROOT

pytestmark = pytest.mark.exhaustive


@pytest.mark.parametrize("scenario", ["flat", "nested", "shared", "equal", "reads"])
def test_candidates_of_each_kind_of_cloud_are_measured(scenario, tmp_path):
    shutil.copytree(ROOT / "bench", tmp_path / "bench", ignore=shutil.ignore_patterns("out"))
    measured = run_benchmark(
        ["bench/candidates.py", "--only", scenario, "--hosts", "60", "--rounds", "1", "--no-peer"],
        *("--database", "sqlite", "--server", f"sqlite:///{tmp_path}/"),
        folder=tmp_path,
    )
    assert measured.returncode == 0, measured.stderr
    heading, _rule, *rows = [line for line in measured.stdout.splitlines() if line[:2] == "| "]
    assert heading.startswith("| query |")
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
def test_fleets_and_schedulers_are_measured(script, options, tmp_path):
    shutil.copytree(ROOT / "bench", tmp_path / "bench", ignore=shutil.ignore_patterns("out"))
    measured = run_benchmark(
        [f"bench/{script}.py", *options, "--no-peer"],
        *("--database", "sqlite", "--server", f"sqlite:///{tmp_path}/"),
        folder=tmp_path,
    )
    assert measured.returncode == 0, measured.stdout + measured.stderr
    assert "| ours | " in measured.stdout
