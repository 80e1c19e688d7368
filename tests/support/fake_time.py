# SPDX-License-Identifier: Apache-2.0
"""Processes whose wall clock a test sets as it likes, by libfaketime; other clocks go on."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.servers import rewrite

#: Set by CI: a libfaketime that is not installed is then a failure, not a skip.
REQUIRED = bool(os.environ.get("PLACEMENT_SCHED_REQUIRE_TOOLS"))
_LIBRARY = "*/faketime/libfaketime.so.1"
#: What Python imports as it starts. Its sleep waits until a time of the monotonic clock, which
#: libfaketime takes for one of the wall clock: it would not wait, or fail.
_AT_START = """
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
    """The clock of all processes that are started with :attr:`variables`."""

    file: Path
    library: Path
    #: Seconds by which it is wrong.
    off: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Begin with the right time."""
        self.set(0)
        self.file.with_name("sitecustomize.py").write_text(_AT_START)

    def set(self, off: int) -> None:
        """Let the clock be wrong by so many seconds from now on."""
        self.off = off
        rewrite(self.file, f"{off:+d}\n")

    @property
    def variables(self) -> Mapping[str, str]:
        """Return what a process is started with."""
        return {
            "LD_PRELOAD": str(self.library),
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            # The file is read each time that the clock is.
            "FAKETIME_NO_CACHE": "1",
            # Waits are for a time by the monotonic clock, which no one sets.
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_RESET": "1",
            "NO_FAKE_STAT": "1",
            "PYTHONPATH": str(self.file.parent),
        }


def create_fake_clock(folder: Path) -> FakeClock:
    """Return a clock, which is right at first; skip the test without libfaketime.

    CI requires it.
    """
    found = sorted(Path("/usr/lib").glob(_LIBRARY))
    if not found:
        (pytest.fail if REQUIRED else pytest.skip)("libfaketime (faketime) is not installed")
    return FakeClock(folder / "clock", found[0])
