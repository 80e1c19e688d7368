# SPDX-License-Identifier: Apache-2.0
"""The DevStack plugin, run in each phase and mode with functions that record their calls."""

import shlex
import shutil
from pathlib import Path

import pytest

from placement_sched.cli.main import make_parser
from tests.deploy import run_program
from tests.support.commands import run_captured
from tests.support.repository import ROOT

pytestmark = pytest.mark.slow

DEVSTACK_FOLDER = ROOT / "devstack"
SHELL_SCRIPTS = [
    DEVSTACK_FOLDER / "settings",
    DEVSTACK_FOLDER / "plugin.sh",
    ROOT / "deploy/kolla/extend_start.sh",
]
CONF_PATH = "/etc/placement_sched/placement_sched.conf"
UWSGI_INI_PATH = "/etc/placement/placement-uwsgi.ini"
DATABASE_URL = "mysql+pymysql://root:secret@127.0.0.1/placement?charset=utf8"
#: DevStack's functions and variables. A call is a line, with its arguments in quotes.
DEVSTACK_FUNCTIONS = """
set -eu
call() { printf '%q ' "$@"; echo; }
for name in define_plugin disable_service enable_service iniset run_process setup_develop \\
        stop_process sudo; do
    eval "$name() { call $name \\"\\$@\\"; }"
done
die() { echo "$2"; exit 1; }
echo_summary() { :; }
rm() { :; }
database_connection_url() { echo "URL&plugin=dbcounter"; }
get_python_exec_prefix() { echo "BIN"; }
DEST=/opt/stack STACK_USER=stack NOVA_CONF=/etc/nova/nova.conf
PLACEMENT_CONF=/etc/placement/placement.conf PLACEMENT_UWSGI_CONF=/etc/placement/placement-uwsgi.ini
"""
DEVSTACK_PHASES = (
    "stack pre-install",
    "stack install",
    "stack post-config",
    "stack extra",
    "stack test-config",
    "unstack",
    "clean",
)


def run_devstack_plugin(folder: Path, mode: str | None, *, status: int = 0) -> list[list[str]]:
    """Return the calls of the settings and of all phases, in order."""
    program = folder / "placement-sched"
    program.write_text('#!/bin/bash\nprintf "%q " placement-sched "$@"; echo\n')
    program.chmod(0o755)
    script = DEVSTACK_FUNCTIONS.replace("URL", DATABASE_URL).replace("BIN", str(folder))
    if mode is not None:
        script += f"PLACEMENT_SCHED_MODE={mode}\n"
    script += f"source {DEVSTACK_FOLDER}/settings\n"
    # DevStack sources a plugin with the mode and, for stack.sh, the phase.
    script += "".join(f"source {DEVSTACK_FOLDER}/plugin.sh {phase}\n" for phase in DEVSTACK_PHASES)
    printed = run_program("bash", "-c", script, status=status)
    return [shlex.split(line) for line in printed.splitlines()]


ADOPTION_CALLS = [
    ["sudo", "install", "-d", "-o", "stack", "/etc/placement_sched"],
    ["iniset", CONF_PATH, "placement_database", "connection", DATABASE_URL],
    ["placement-sched", "db", "adopt", "--config-file", CONF_PATH],
]
PLACEMENT_CALLS = [
    ["iniset", "/etc/placement/placement.conf", "placement_database", "connection", DATABASE_URL],
    ["iniset", UWSGI_INI_PATH, "uwsgi", "module", "placement_sched.wsgi:placement"],
    ["iniset", UWSGI_INI_PATH, "uwsgi", "need-app", "true"],
]
INSTALLATION_CALLS = [["setup_develop", "/opt/stack/placement_sched", "mysql,postgresql,memcached"]]
UNSTACK_CALLS = [["stop_process", "placement-sched"], ["sudo", "rm", "-rf", "/etc/placement_sched"]]
CALLS_BY_MODE = {
    "placement": [],
    "scheduler": [["disable_service", "n-sch"], ["enable_service", "placement-sched"]],
    "shadow": [["enable_service", "placement-sched"]],
}
COMMAND_BY_MODE = {
    "placement": "nova-shadow",
    "scheduler": "nova-scheduler",
    "shadow": "nova-shadow",
}


@pytest.mark.parametrize("mode", CALLS_BY_MODE)
def test_devstack_plugin_configures_and_starts_the_services_of_its_mode(tmp_path, mode):
    calls = run_devstack_plugin(tmp_path, mode)
    command = f"{tmp_path}/placement-sched {COMMAND_BY_MODE[mode]}"
    # run_process of DevStack starts only enabled services.
    start = f"{command} --config-file /etc/nova/nova.conf --config-file {CONF_PATH}"
    assert calls == [
        ["define_plugin", "placement_sched"],
        *CALLS_BY_MODE[mode],
        *INSTALLATION_CALLS,
        *ADOPTION_CALLS,
        *(PLACEMENT_CALLS if mode != "shadow" else []),
        ["run_process", "placement-sched", start],
        *UNSTACK_CALLS,
    ]
    _, *arguments = shlex.split(start)
    assert make_parser(arguments).parse_args(arguments).run


def test_default_mode_of_the_devstack_plugin_is_placement(tmp_path):
    assert run_devstack_plugin(tmp_path, None) == run_devstack_plugin(tmp_path, "placement")


def test_unknown_mode_of_the_devstack_plugin_is_reported(tmp_path):
    words = [word for line in run_devstack_plugin(tmp_path, "both", status=1) for word in line]
    assert words[-5:] == ["set", "placement,", "scheduler", "or", "shadow"]


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
@pytest.mark.parametrize("script", SHELL_SCRIPTS, ids=lambda path: path.name)
def test_devstack_plugin_passes_shellcheck(script):
    done = run_captured(["shellcheck", script], timeout=60)
    assert done.returncode == 0, done.stdout
