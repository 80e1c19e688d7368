# SPDX-License-Identifier: Apache-2.0
"""The release before this one, as tests of upgrades run it: the source before the newest revision.

A release is named ``last`` or ``this``.
"""

import configparser
import io
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from placement_sched.db.migrate import newest_revision
from tests.deploy import REQUIRED, find_program, run
from tests.support.repository import ROOT
from tests.support.servers import PROGRAM, environment

RUN = "import sys; from placement_sched.cli.main import main; sys.exit(main(sys.argv[1:]))"


def unpack_last_release(folder: Path) -> Path:
    """Put the source as it was before the newest revision came into a folder, and return that.

    Its history is required in CI, as programs are.
    """
    (revision,) = (ROOT / "alembic/versions").glob(f"{newest_revision()}_*.py")
    git = [find_program("git"), "-C", str(ROOT)]
    log = [*git, "log", "--diff-filter=A", "--format=%H", "-1", "--", str(revision)]
    came = subprocess.run(log, capture_output=True, text=True, timeout=60, check=False)
    # A revision that is not committed yet came after all that is.
    of = f"{came.stdout.strip()}^" if came.stdout.strip() else "HEAD"
    known = subprocess.run(
        [*git, "rev-parse", "--verify", of], capture_output=True, timeout=60, check=False
    )
    if came.returncode or known.returncode:
        reason = "the history of the source is not here: clone it whole, with git installed"
        assert not REQUIRED, reason
        pytest.skip(reason)
    archive = subprocess.run(
        [*git, "archive", of, "placement_sched", "alembic", "setup.cfg"],
        capture_output=True,
        timeout=60,
        check=True,
    )
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as file:
        file.extractall(folder, filter="data")
    _write_metadata(folder)
    return folder


def _write_metadata(folder: Path) -> None:
    """Let a release find its own entry points, not those of the release that is installed."""
    setup = configparser.ConfigParser()
    setup.read(folder / "setup.cfg")
    info = folder / "placement_sched-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: placement_sched\nVersion: 0\n")
    groups = setup["options.entry_points"]
    text = "\n".join(f"[{group}]{announced}\n" for group, announced in groups.items())
    (info / "entry_points.txt").write_text(text)


def release_command(name: str) -> list[str | Path]:
    """Return the command of a release."""
    return [sys.executable, "-c", RUN] if name == "last" else [PROGRAM]


def release_environment(name: str, last_release: Path, url: str) -> dict[str, str]:
    """Return the environment in which a release uses a database."""
    found = environment(
        OS_PLACEMENT_DATABASE__CONNECTION=url, OS_DEFAULT__SERVICE_DOWN_TIME="86400"
    )
    return {**found, "PYTHONPATH": str(last_release)} if name == "last" else found


def sync_schema(name: str, last_release: Path, url: str, folder: Path) -> str:
    """Let a release bring a database to its schema; return what it printed."""
    return run(
        *(*release_command(name), "db", "sync"),
        env=release_environment(name, last_release, url),
        cwd=folder,
    )
