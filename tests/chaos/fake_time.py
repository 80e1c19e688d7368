# SPDX-License-Identifier: Apache-2.0
"""Processes whose wall clock a test sets with libfaketime."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.servers import rewrite_file

#: Set by CI: a libfaketime that is not installed is then a failure, not a skip.
TOOLS_REQUIRED = bool(os.environ.get("PLACEMENT_SCHED_REQUIRE_TOOLS"))
_LIBFAKETIME_PATTERN = "*/faketime/libfaketime.so.1"
#: Python imports this module at its start. Python's own ``time.sleep`` waits for a time of the
#: monotonic clock, and libfaketime treats that as a wall clock time: the sleep would end at once
#: or fail.
_SITECUSTOMIZE_TEXT = """
import select
import time


def sleep(seconds):
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    select.select((), (), (), seconds)


time.sleep = sleep
"""


@dataclass
class FakeClock:
    """The wall clock of processes with the environment variables :attr:`variables`."""

    file: Path
    library: Path
    #: Seconds that the clock is ahead.
    off: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Set the right time, and replace ``time.sleep``."""
        self.set(0)
        self.file.with_name("sitecustomize.py").write_text(_SITECUSTOMIZE_TEXT)

    def set(self, off: int) -> None:
        """Let the clock be ``off`` seconds ahead from now on."""
        self.off = off
        rewrite_file(self.file, f"{off:+d}\n")

    @property
    def variables(self) -> Mapping[str, str]:
        """Return the environment variables of a process with this clock."""
        return {
            "LD_PRELOAD": str(self.library),
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            # The file is read whenever a process reads the clock.
            "FAKETIME_NO_CACHE": "1",
            # Timeouts use the monotonic clock, which nobody sets.
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_RESET": "1",
            "NO_FAKE_STAT": "1",
            "PYTHONPATH": str(self.file.parent),
        }


def create_fake_clock(folder: Path) -> FakeClock:
    """Return a clock with the right time, or skip the test without libfaketime."""
    libraries = sorted(Path("/usr/lib").glob(_LIBFAKETIME_PATTERN))
    if not libraries:
        (pytest.fail if TOOLS_REQUIRED else pytest.skip)("libfaketime (faketime) is not installed")
    return FakeClock(folder / "clock", libraries[0])
