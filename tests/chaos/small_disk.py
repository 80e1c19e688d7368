# SPDX-License-Identifier: Apache-2.0
"""A small disk in memory that a test can fill."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

#: Set by CI: the test then fails if a disk cannot be mounted.
TOOLS_REQUIRED = bool(os.environ.get("PLACEMENT_SCHED_REQUIRE_TOOLS"))
_WRITE_SIZES = (2**20, 2**12)


@dataclass(frozen=True)
class SmallDisk:
    """A file system with its root in a folder."""

    folder: Path

    def fill(self) -> None:
        """Write until the disk is full."""
        # A database may free space while the last pieces are written.
        with self._ballast_file.open("ab", buffering=0) as file:
            for piece in _WRITE_SIZES:
                while _is_written(file.fileno(), piece):
                    pass

    def free_space(self) -> None:
        """Delete the data of :meth:`fill`."""
        self._ballast_file.unlink(missing_ok=True)

    @property
    def _ballast_file(self) -> Path:
        return self.folder / "ballast"


def _is_written(file: int, size: int) -> bool:
    """Append ``size`` zero bytes and return whether all were written."""
    try:
        return os.write(file, bytes(size)) == size
    except OSError:
        return False


@contextmanager
def mount_small_disk(megabytes: int) -> Iterator[SmallDisk]:
    """Mount a disk of this size, or skip the test if that fails and CI does not require it."""
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="placement_sched_disk_"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        options = f"size={megabytes}m,mode=0755"
        command = ["mount", "-t", "tmpfs", "-o", options, "placement_sched", str(folder)]
        failure = _run_and_read_failure(command)
        if failure is not None:
            (pytest.fail if TOOLS_REQUIRED else pytest.skip)(
                f"a small disk is not mounted: {failure}"
            )
        # A lazy unmount succeeds even if a process still has a file open.
        stack.callback(_run_and_read_failure, ["umount", "--lazy", str(folder)])
        yield SmallDisk(folder)


def _run_and_read_failure(command: list[str]) -> str | None:
    """Run a command and return the reason of its failure, or None."""
    if shutil.which(command[0]) is None:
        return f"{command[0]} is not installed"
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return ended.stderr.strip() if ended.returncode else None
