# SPDX-License-Identifier: Apache-2.0
"""Benchmarks report missing services and how to install them."""

import os
import subprocess
import sys

import pytest

from tests.support.repository import ROOT

pytestmark = pytest.mark.exhaustive


def run_benchmark(script, *arguments, folder=ROOT, **variables):
    return subprocess.run(
        [sys.executable, f"bench/{script}.py", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        check=False,
    )


@pytest.mark.parametrize(
    "script",
    [
        *("candidates", "writes", "fleet", "schedulers", "race"),
        *("selecting", "nova_reading", "nova_rpc"),
    ],
)
def test_comparison_needs_the_peer(script, tmp_path):
    python = tmp_path / "python"
    result = run_benchmark(script, "--quick", PLACEMENT_SCHED_PEER_PYTHON=str(python))
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr == (
        f"there is no {python}: make peer installs openstack-placement and nova\n"
    )


def test_unknown_database_is_reported_with_known_databases():
    result = run_benchmark("candidates", "--database", "postgresql,oracle")
    assert result.returncode == 2
    assert result.stderr.endswith(
        "--database: not oracle, but postgresql, mariadb, sqlite, galera\n"
    )
