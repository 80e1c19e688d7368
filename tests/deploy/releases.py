# SPDX-License-Identifier: Apache-2.0
"""The last release for tests of upgrades: the source before the newest revision.

The names of the releases are ``last`` and ``this``.
"""

import io
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from placement_sched.db.migrate import get_newest_revision
from tests.deploy import TOOLS_REQUIRED, find_program, run_program
from tests.support.repository import ROOT, read_setup_cfg
from tests.support.servers import PROGRAM, build_environment

RUN_MAIN_CODE = (
    "import sys; from placement_sched.cli.main import main; sys.exit(main(sys.argv[1:]))"
)


def unpack_last_release(folder: Path) -> Path:
    """Unpack the source before the newest revision into ``folder`` and return the folder.

    CI requires the history of the source, as it requires programs.
    """
    revision = f"alembic/versions/{get_newest_revision()}_*.py"
    git = [find_program("git"), "-C", str(ROOT)]
    log = [*git, "log", "--diff-filter=A", "--format=%H", "--", revision]
    added = subprocess.run(log, capture_output=True, text=True, timeout=60, check=False)
    # The oldest commit, because the file may have been renamed. A revision without a commit is
    # newer than HEAD.
    commit = f"{added.stdout.split()[-1]}^" if added.stdout.strip() else "HEAD"
    parsed = subprocess.run(
        [*git, "rev-parse", "--verify", commit], capture_output=True, timeout=60, check=False
    )
    if added.returncode or parsed.returncode:
        reason = "the history of the source is not here: clone it whole, with git installed"
        assert not TOOLS_REQUIRED, reason
        pytest.skip(reason)
    archive = subprocess.run(
        [*git, "archive", commit, "placement_sched", "alembic", "setup.cfg"],
        capture_output=True,
        timeout=60,
        check=True,
    )
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as file:
        file.extractall(folder, filter="data")
    _write_metadata(folder)
    return folder


def _write_metadata(folder: Path) -> None:
    """Write entry points, so that the release does not use the installed release's."""
    setup = read_setup_cfg(folder)
    info = folder / "placement_sched-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: placement_sched\nVersion: 0\n")
    groups = setup["options.entry_points"]
    text = "\n".join(f"[{group}]{announced}\n" for group, announced in groups.items())
    (info / "entry_points.txt").write_text(text)


def build_release_command(name: str) -> list[str | Path]:
    return [sys.executable, "-c", RUN_MAIN_CODE] if name == "last" else [PROGRAM]


def build_release_environment(name: str, last_release: Path, url: str) -> dict[str, str]:
    """Return the environment variables of a release with a database."""
    variables = build_environment(
        OS_PLACEMENT_DATABASE__CONNECTION=url, OS_DEFAULT__SERVICE_DOWN_TIME="86400"
    )
    return {**variables, "PYTHONPATH": str(last_release)} if name == "last" else variables


def sync_schema(name: str, last_release: Path, url: str, folder: Path) -> str:
    """Run ``db sync`` of a release and return its output."""
    return run_program(
        *(*build_release_command(name), "db", "sync"),
        env=build_release_environment(name, last_release, url),
        cwd=folder,
    )
