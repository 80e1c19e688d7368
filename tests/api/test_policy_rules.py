# SPDX-License-Identifier: Apache-2.0
"""oslo.policy's commands find the rules of this service through its entry points."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from placement_sched.api.policy_rules import RULES

pytestmark = pytest.mark.slow

DEFAULTS = {rule.name: rule.check_str for rule in RULES}


def run_policy_command(
    command: str, folder: Path, *arguments: str, **environment: str
) -> tuple[int, str]:
    """Run a command of oslo.policy and return its status and output."""
    done = subprocess.run(
        [
            Path(sys.executable).with_name(f"oslopolicy-{command}"),
            *("--namespace", "placement_sched", *arguments),
        ],
        cwd=folder,
        env={**os.environ, "HOME": str(folder), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration file with the policy file ``policy.yaml`` in the same folder."""
    file = tmp_path / "placement.conf"
    file.write_text(f"[oslo_policy]\npolicy_file = {tmp_path / 'policy.yaml'}\n")
    return file


def test_sample_has_every_rule_with_its_default(tmp_path):
    status, sample = run_policy_command("sample-generator", tmp_path)
    assert status == 0
    rules = "\n".join(line[1:] for line in sample.splitlines() if line.startswith('#"'))
    assert yaml.safe_load(rules) == DEFAULTS


def test_sample_lists_the_operations(tmp_path):
    _, sample = run_policy_command("sample-generator", tmp_path)
    for rule in RULES:
        for operation in rule.operations:
            assert f"# {operation['method']}  {operation['path']}\n" in sample


def test_sample_policy_file_changes_nothing(tmp_path, config):
    run_policy_command("sample-generator", tmp_path, "--output-file", str(tmp_path / "policy.yaml"))
    status, rules = run_policy_command("policy-generator", tmp_path, "--config-file", str(config))
    assert status == 0
    assert yaml.safe_load(rules) == DEFAULTS


def test_generated_policy_has_the_changes_of_the_file(tmp_path, config):
    (tmp_path / "policy.yaml").write_text('"placement:traits:list": "role:reader"\n')
    status, rules = run_policy_command(
        "policy-generator", tmp_path, PLACEMENT_SCHED_CONFIG=str(config)
    )
    assert status == 0
    assert yaml.safe_load(rules) == {**DEFAULTS, "placement:traits:list": "role:reader"}


def test_redundant_rules_are_listed(tmp_path, config):
    (tmp_path / "policy.yaml").write_text(
        '"placement:traits:list": "rule:admin_or_service_api"\n"scheduler:explain": "@"\n'
    )
    status, output = run_policy_command("list-redundant", tmp_path, "--config-file", str(config))
    assert status == 0
    assert '"placement:traits:list": "rule:admin_or_service_api"' in output
    assert '"scheduler:explain"' not in output


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [
        ('"placement:traits:list": "role:reader"\n', 0, ""),
        ('"placement:trait:list": "role:reader"\n', 1, "Unknown rule"),
        ('"placement:traits:list": "rule:nobody"\n', 1, "Invalid rules found"),
    ],
)
def test_validator_reports_errors(tmp_path, config, text, status, words):
    (tmp_path / "policy.yaml").write_text(text)
    code, printed = run_policy_command("validator", tmp_path, "--config-file", str(config))
    assert code == status
    assert words in printed


def test_missing_configuration_is_a_one_line_error(tmp_path):
    status, text = run_policy_command("validator", tmp_path, PLACEMENT_SCHED_CONFIG="/no/such.conf")
    assert status == 1
    assert text == "/no/such.conf: No such file or directory\n"
