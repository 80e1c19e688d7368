# SPDX-License-Identifier: Apache-2.0
"""A part of the chaos tests that does not end in time is stopped and listed in the table."""

import io
import sys

import pytest
from rich.console import Console

from tests.chaos import __main__ as chaos
from tests.chaos.parts import Part

pytestmark = pytest.mark.slow

#: Ignores Ctrl-C, and leaves a process in a session of its own that holds what it prints to.
STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
subprocess.Popen(["sleep", "20"], start_new_session=True)
print("begun", flush=True)
time.sleep(20)
"""


def test_part_that_ignores_the_signal_is_killed_and_what_it_printed_is_kept(monkeypatch, tmp_path):
    monkeypatch.setattr(chaos, "ENDING", 0.2)
    printed = tmp_path / "printed.txt"
    trial = chaos._Trial([], Console(file=io.StringIO()))
    command = [sys.executable, "-c", STUBBORN]
    assert trial._run(command, Part("stubborn", 2, ()), 2, printed)
    assert printed.read_text() == "begun\n"


def test_part_that_is_stopped_has_not_survived(monkeypatch):
    monkeypatch.setattr(chaos, "ENDING", 0.2)
    part = Part("stubborn", 0, ("--version",))
    (outcome,) = chaos._Trial([part], Console(file=io.StringIO())).run()
    assert not outcome.survived
    assert outcome.verdict.startswith("NO: stopped after 0 seconds")
