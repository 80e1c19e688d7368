# SPDX-License-Identifier: Apache-2.0
"""A process of nova's functional tests that hangs."""

import sys
from pathlib import Path

import pytest

from tests.nova.functional import worker

pytestmark = pytest.mark.slow

#: Answers the first line, and hangs at the second.
HANGING_PROGRAM = """
import sys, time
print("ready", flush=True)
sys.stdin.readline()
print('{"tests": ["a"]}', flush=True)
time.sleep(600)
"""


def test_hanging_test_fails_and_its_process_is_ended(monkeypatch, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(HANGING_PROGRAM)
    monkeypatch.setattr(worker, "NOVA_TESTS_PROGRAM", program)
    monkeypatch.setattr(worker, "PEER_PYTHON", Path(sys.executable))
    monkeypatch.setattr(worker, "MAX_TEST_SECONDS", 0.5)
    hanging = worker.Worker(worker.OPENSTACK_PLACEMENT, None)
    assert hanging.list_tests(["module"]) == ["a"]
    result = hanging.run_test("a")
    assert result.outcome == worker.FAILED
    assert "the test ended its process" in result.text
