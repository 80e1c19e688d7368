# SPDX-License-Identifier: Apache-2.0
"""Progress bars on a terminal."""

import os
import pty
import subprocess
import sys

import pytest

from tests.support.servers import environment

pytestmark = pytest.mark.slow

PROGRAM = """
from placement_sched.cli.output import show_progress
with show_progress("working") as advance:
    advance(1, 2)
    print("a line")
"""


def test_output_during_a_progress_bar_goes_to_stdout_and_the_bar_to_stderr():
    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            stdout=subprocess.PIPE,
            stderr=theirs,
            env=environment(TERM="xterm"),
            check=True,
            timeout=240,
        )
        assert b"working" in os.read(ours, 10_000)
    finally:
        os.close(theirs)
        os.close(ours)
    assert done.stdout == b"a line\n"
