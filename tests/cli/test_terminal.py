# SPDX-License-Identifier: Apache-2.0
"""Progress bars on a terminal."""

import os
import pty
import subprocess
import sys

import pytest

from tests.support.servers import build_environment

pytestmark = pytest.mark.slow

PROGRESS_BAR_PROGRAM = """
from placement_sched.cli.output import show_progress
with show_progress("working") as advance:
    advance(1, 2)
    print("a line")
"""


def test_progress_bar_is_on_stderr_and_other_output_on_stdout():
    master, slave = pty.openpty()
    try:
        result = subprocess.run(
            [sys.executable, "-c", PROGRESS_BAR_PROGRAM],
            stdout=subprocess.PIPE,
            stderr=slave,
            env=build_environment(TERM="xterm"),
            check=True,
            timeout=240,
        )
        assert b"working" in os.read(master, 10_000)
    finally:
        os.close(slave)
        os.close(master)
    assert result.stdout == b"a line\n"
