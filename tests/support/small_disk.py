# SPDX-License-Identifier: Apache-2.0
"""A disk of a test's own, so small that it can be filled: memory, mounted in a folder."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

#: Set by CI: a disk that cannot be mounted is then a failure, not a skip.
REQUIRED = bool(os.environ.get("PLACEMENT_SCHED_REQUIRE_TOOLS"))
_PIECES = (2**20, 2**12)


@dataclass(frozen=True)
class SmallDisk:
    """A file system with its root in a folder."""

    folder: Path

    def fill(self) -> None:
        """Take all the room that is left."""
        # A database may free some while the last pieces are written.
        with self._ballast_file.open("ab", buffering=0) as file:
            for piece in _PIECES:
                while _is_written(file.fileno(), piece):
                    pass

    def free_space(self) -> None:
        """Give back what :meth:`fill` took."""
        self._ballast_file.unlink(missing_ok=True)

    @property
    def _ballast_file(self) -> Path:
        return self.folder / "ballast"


def _is_written(file: int, size: int) -> bool:
    """Append so many bytes; return whether all of them had room."""
    try:
        return os.write(file, bytes(size)) == size
    except OSError:
        return False


@contextmanager
def small_disk(megabytes: int) -> Iterator[SmallDisk]:
    """Give a disk of this size; skip the test where it cannot be mounted, unless CI requires it."""
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="placement_sched_disk_"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        options = f"size={megabytes}m,mode=0755"
        command = ["mount", "-t", "tmpfs", "-o", options, "placement_sched", str(folder)]
        refused = _run(command)
        if refused is not None:
            (pytest.fail if REQUIRED else pytest.skip)(f"a small disk is not mounted: {refused}")
        # Also where a process still has a file open there.
        stack.callback(_run, ["umount", "--lazy", str(folder)])
        yield SmallDisk(folder)


def _run(command: list[str]) -> str | None:
    """Run a command; return why it failed, None where it did not."""
    if shutil.which(command[0]) is None:
        return f"{command[0]} is not installed"
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return ended.stderr.strip() if ended.returncode else None
