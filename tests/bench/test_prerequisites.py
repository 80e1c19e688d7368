# SPDX-License-Identifier: Apache-2.0
"""A benchmark that lacks what it races against says so at once, and how to get it."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.support.repository import ROOT

pytestmark = pytest.mark.exhaustive


def run_benchmark(script, *arguments, folder=ROOT, **variables):
    return subprocess.run(
        [sys.executable, *script, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, **variables},
        check=False,
    )


@pytest.fixture
def empty_checkout(tmp_path):
    """Return a folder with the benchmarks and without any environment."""
    shutil.copytree(ROOT / "bench", tmp_path / "bench", ignore=shutil.ignore_patterns("out"))
    return tmp_path


def test_host_selection_needs_nova(empty_checkout):
    refused = run_benchmark(["bench/selecting.py"], "--quick", folder=empty_checkout)
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert refused.stderr == (
        f"there is no {empty_checkout}/bench/../.venv-peer/bin/python: "
        "make peer installs nova and openstack-placement\n"
    ).replace("/bench/..", "")


def test_claim_race_needs_the_peer(tmp_path):
    refused = run_benchmark(
        ["-m", "bench.race"], PLACEMENT_SCHED_PEER_PYTHON=str(tmp_path / "python")
    )
    assert refused.returncode == 2
    assert refused.stderr.endswith("make peer installs openstack-placement\n")
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize("script", ["candidates", "writes", "fleet", "schedulers"])
def test_named_environment_must_exist(script, tmp_path):
    refused = run_benchmark([f"bench/{script}.py"], "--peer-venv", str(tmp_path))
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"there is no {tmp_path}/bin/uwsgi: pip install ")
    assert refused.stderr.count("\n") == 1


def test_rpc_race_needs_nova(tmp_path):
    nowhere = str(tmp_path / "python")
    refused = run_benchmark(["-m", "bench.nova_rpc"], PLACEMENT_SCHED_PEER_PYTHON=nowhere)
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert refused.stderr == f"there is no {nowhere}: make peer installs nova\n"


def test_unknown_database_is_reported_with_known_databases():
    refused = run_benchmark(["bench/candidates.py"], "--database", "postgresql,oracle")
    assert refused.returncode == 2
    assert refused.stderr.endswith(
        "--database: not oracle, but postgresql, mariadb, sqlite, galera\n"
    )
