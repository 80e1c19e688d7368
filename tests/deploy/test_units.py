"""The units of systemd are valid, harden the services, and start what there is."""

import configparser
import re
import shlex
from pathlib import Path

import pytest

from placement_sched.cli.main import make_parser
from placement_sched.cli.serve import GRACE
from tests.deploy import DEPLOY, run, tool
from tests.servers import PROGRAM

INSTALLED = "/opt/placement_sched/bin/placement-sched"
UNITS = DEPLOY / "systemd"
SERVICES = sorted(path.name for path in UNITS.glob("*.service"))
#: In tenths, as systemd-analyze counts what a service could do (of 10.0); it calls 1.3 "OK".
EXPOSED_AT_MOST = "15"


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """The units, with the program where it is here."""
    for path in UNITS.iterdir():
        (tmp_path / path.name).write_text(path.read_text().replace(INSTALLED, str(PROGRAM)))
    return tmp_path


def setting(unit: str, name: str) -> str:
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str
    parser.read(UNITS / unit)
    return parser["Service"][name]


def test_units_are_valid(units):
    analyze = tool("systemd-analyze", "systemd")
    # It follows what the units name, and complains of nothing there either.
    paths = [path for path in sorted(units.iterdir()) if path.suffix in {".service", ".socket"}]
    assert len(paths) == 3
    assert run(analyze, "verify", *paths) == ""


@pytest.mark.parametrize("unit", SERVICES)
def test_services_are_hardened(units, unit):
    analyze = tool("systemd-analyze", "systemd")
    command = ["security", "--offline=true", "--no-pager", f"--threshold={EXPOSED_AT_MOST}"]
    told = run(analyze, *command, units / unit)
    assert "Overall exposure level" in told


@pytest.mark.parametrize("unit", SERVICES)
def test_commands_are_ones_that_the_program_has(unit):
    program, *words = shlex.split(setting(unit, "ExecStart"))
    assert program == INSTALLED
    arguments = make_parser(words).parse_args(words)
    assert all(name.startswith("/etc/") for name in arguments.config_file)


def test_stopping_waits_for_the_requests_at_work():
    for unit in SERVICES:
        assert int(setting(unit, "TimeoutStopSec")) > GRACE
        assert setting(unit, "KillMode") == "mixed"  # the server ends its workers


def test_the_user_of_the_services_is_the_one_that_is_made():
    made = re.search(r"^u (\S+)", (UNITS / "placement-sched.sysusers").read_text(), re.MULTILINE)
    assert {setting(unit, "User") for unit in SERVICES} == {made[1]}
