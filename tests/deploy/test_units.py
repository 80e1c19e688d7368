# SPDX-License-Identifier: Apache-2.0
"""The units of systemd are valid, harden their services, and start existing commands."""

import configparser
import re
import shlex
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from placement_sched.cli.main import make_parser
from placement_sched.cli.serve import GRACE
from placement_sched.config.conf import create_conf
from placement_sched.extensions.shadow import service as shadow
from placement_sched.scheduler.plugins import read_settings
from tests.deploy import DEPLOY_FOLDER, find_program, run_program
from tests.support.servers import PROGRAM, build_environment, wait_until

pytestmark = pytest.mark.slow

INSTALLED_PROGRAM = "/opt/placement_sched/bin/placement-sched"
UNITS_FOLDER = DEPLOY_FOLDER / "systemd"
SERVICE_UNITS = sorted(path.name for path in UNITS_FOLDER.glob("*.service"))
#: Seconds until each service has finished its requests, and text in its log when it runs.
GRACE_SECONDS_BY_UNIT = {
    "placement-sched.service": GRACE,
    "placement-sched-nova-scheduler.service": (
        read_settings((), create_conf()).DEFAULT.graceful_shutdown_timeout
    ),
    "placement-sched-nova-shadow.service": 2 * shadow.GRACE,  # of two threads
}
START_LOG_TEXT_BY_UNIT = {
    "placement-sched.service": "placement-sched serves ",
    "placement-sched-nova-scheduler.service": "Connection failed: ",
    "placement-sched-nova-shadow.service": "requests are not evaluated yet",
}
#: systemd-analyze's exposure in tenths, of 10.0 at most. Its word for 1.3 is "OK".
MAX_UNIT_EXPOSURE_TENTHS = "15"


@pytest.fixture
def folder_of_local_units(tmp_path: Path) -> Path:
    """A folder of the units with the path of this program."""
    for path in UNITS_FOLDER.iterdir():
        (tmp_path / path.name).write_text(path.read_text().replace(INSTALLED_PROGRAM, str(PROGRAM)))
    return tmp_path


def read_service_setting(unit: str, name: str) -> str:
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str
    parser.read(UNITS_FOLDER / unit)
    return parser["Service"][name]


def read_environment_variables(unit: str) -> dict[str, str]:
    lines = re.findall(r"^Environment=(.*)$", (UNITS_FOLDER / unit).read_text(), re.MULTILINE)
    pairs = (word.partition("=") for line in lines for word in shlex.split(line))
    return {name: value for name, _, value in pairs}


def test_systemd_units_are_valid(folder_of_local_units):
    analyze = find_program("systemd-analyze", "systemd")
    # systemd-analyze reads the files that the units name, too.
    paths = [
        path
        for path in sorted(folder_of_local_units.iterdir())
        if path.suffix in {".service", ".socket"}
    ]
    assert len(paths) == 4
    assert run_program(analyze, "verify", *paths) == ""


@pytest.mark.parametrize("unit", SERVICE_UNITS)
def test_exposure_of_a_service_unit_is_within_the_maximum(folder_of_local_units, unit):
    analyze = find_program("systemd-analyze", "systemd")
    command = [
        "security",
        "--offline=true",
        "--no-pager",
        f"--threshold={MAX_UNIT_EXPOSURE_TENTHS}",
    ]
    output = run_program(analyze, *command, folder_of_local_units / unit)
    assert "Overall exposure level" in output


@pytest.mark.parametrize("unit", SERVICE_UNITS)
def test_start_commands_of_units_are_accepted_by_the_command_line(unit):
    program, *words = shlex.split(read_service_setting(unit, "ExecStart"))
    assert program == INSTALLED_PROGRAM
    arguments = make_parser(words).parse_args(words)
    assert all(name.startswith("/etc/") for name in arguments.config_file)


@pytest.mark.parametrize("unit", SERVICE_UNITS)
def test_stop_timeout_of_a_unit_exceeds_grace_and_shutdown_delay(unit):
    delay = read_settings(
        [str(DEPLOY_FOLDER / "placement_sched.conf")], create_conf()
    ).api.shutdown_delay
    assert int(read_service_setting(unit, "TimeoutStopSec")) > GRACE_SECONDS_BY_UNIT[unit] + delay
    assert read_service_setting(unit, "KillMode") == "mixed"  # the server ends its workers


@pytest.mark.exhaustive
@pytest.mark.parametrize("unit", SERVICE_UNITS)
def test_service_units_write_no_log_to_the_configured_folder(unit, tmp_path):
    """nova.conf and kolla's files name a log folder that the service may not write to."""
    (tmp_path / "cloud.conf").write_text(
        f"[DEFAULT]\nlog_dir = {tmp_path}/log\nlog_file = {tmp_path}/log/api.log\nhost = ctl1\n"
        "transport_url = rabbit://nova:secret@127.0.0.1:1/\n[api]\nauth_strategy = noauth2\n"
        + "".join(
            f"[{name}]\nconnection = sqlite:///{name}.db\n"
            for name in ("placement_database", "api_database", "database")
        )
    )
    command = shlex.split(read_service_setting(unit, "ExecStart"))[1]
    more = {"serve": ["--workers", "1", "--port", "0"], "nova-scheduler": ["--workers", "1"]}
    words = [PROGRAM, command, "--config-file", "cloud.conf", *more.get(command, [])]
    output = run_program(*words, status=1, cwd=tmp_path, env=build_environment())
    assert "the log cannot be set up" in output
    with ExitStack() as stack:
        log = tmp_path / "journal"
        process = subprocess.Popen(
            words,
            stdout=stack.enter_context(log.open("w")),
            stderr=subprocess.STDOUT,
            cwd=tmp_path,
            env=build_environment(**read_environment_variables(unit)),
        )
        stack.callback(process.wait, timeout=120)
        stack.callback(process.terminate)
        assert wait_until(lambda: START_LOG_TEXT_BY_UNIT[unit] in log.read_text()), log.read_text()
    assert not (tmp_path / "log").exists()


def test_sysusers_file_creates_the_user_of_the_services():
    text = (UNITS_FOLDER / "placement-sched.sysusers").read_text()
    user = re.search(r"^u (\S+)", text, re.MULTILINE)[1]
    assert {read_service_setting(unit, "User") for unit in SERVICE_UNITS} == {user}
