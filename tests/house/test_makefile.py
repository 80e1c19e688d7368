# SPDX-License-Identifier: Apache-2.0
"""The targets of the Makefile, their messages, and their use by other tools."""

import configparser
import os
import re
import sys

import pytest
import yaml

from tests.support.commands import run_captured
from tests.support.repository import MAKE_TARGETS, MAKEFILE_TEXT, ROOT

pytestmark = pytest.mark.slow

#: The variables of make that the environment may set.
MAKE_VARIABLES = set(re.findall(r"^([A-Z_]+) \?=", MAKEFILE_TEXT, re.MULTILINE))


def run_make(*arguments):
    # make may run these tests, and passes its arguments and variables on.
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MAKE", "MFLAGS", "GNUMAKEFLAGS")) and name not in MAKE_VARIABLES
    }
    process = run_captured(["make", *arguments], cwd=ROOT, env=environment, check=True)
    return process.stdout.splitlines()


def test_make_help_lists_targets_for_users_and_developers():
    lines = run_make("help")
    gap = lines.index("")
    assert lines[0] == "To use placement-sched:"
    assert lines[gap + 1] == "To change it:"
    rows = [re.fullmatch(r"  (\S+ +)(\S.*)", line) for line in lines if line.startswith(" ")]
    assert {len(row[1]) for row in rows} == {17}
    assert {row[1].strip() for row in rows} == MAKE_TARGETS
    assert not any(row[2].startswith("dev:") for row in rows)
    used = {line.split()[0] for line in lines[1:gap]}
    assert used == {"clean", "demo", "docs", "help", "nova-cloud"}


@pytest.mark.parametrize(
    "target", ["demo", "test", "test-fast", "test-system", "bench", "peer", "test-only"]
)
def test_make_prints_a_message_before_pip_runs(target, tmp_path):
    lines = run_make("-n", target, f"VENV={tmp_path / 'run'}", f"PEER={tmp_path / 'peer'}")
    steps = [line for line in lines if "installing dependencies" in line or "/pip " in line]
    assert len(steps) % 2 == 0
    for message, pip in zip(steps[::2], steps[1::2], strict=True):
        assert message.startswith("echo 'installing dependencies into ")
        assert "/pip install" in pip


@pytest.mark.parametrize(("target", "variable"), [("demo", "PYTHON"), ("peer", "PEER_PYTHON")])
def test_make_rejects_an_old_python_at_once(target, variable, tmp_path):
    python = tmp_path / "python3.9"
    code = "import sys; sys.version_info = (3, 9, 2); exec(sys.argv[1])"
    python.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{code}' \"$2\"\n")
    python.chmod(0o755)
    folders = [f"VENV={tmp_path / 'run'}", f"PEER={tmp_path / 'peer'}"]
    command = ["make", "--no-print-directory", target, f"{variable}={python}", *folders]
    process = run_captured(command, cwd=ROOT)
    assert process.returncode == 2
    assert process.stdout == ""
    advice = f"set {variable} to Python 3.11 or newer (make {variable}=python3.11)"
    assert process.stderr.startswith(f"{python} is Python 3.9: {advice}\n")


def test_make_docs_prints_the_path_of_the_pages():
    *_, guide, reference = run_make("-n", "docs")
    assert f"{ROOT}/doc/build/index.html" in guide
    assert f"{ROOT}/doc/build/api-ref/index.html" in reference


def test_make_test_targets_pass_their_lane_to_pytest():
    for target, lane in {"test-fast": "fast", "test": "test", "test-system": "system"}.items():
        assert f"--lane {lane} " in run_make("-n", target)[-1]


def test_tox_hooks_and_workflow_only_call_make_or_ci():
    tox = configparser.ConfigParser()
    tox.read(ROOT / "tox.ini")
    assert set(tox["tox"]["env_list"].split(", ")) <= MAKE_TARGETS
    assert tox["testenv"]["commands"].startswith("make {env_name} ")
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    assert {hook["entry"].removeprefix("make ") for hook in hooks} <= MAKE_TARGETS
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    steps = workflow["jobs"]["ci"]["steps"]
    assert [step["run"] for step in steps if "run" in step][-1] == "bash .ci/run"
