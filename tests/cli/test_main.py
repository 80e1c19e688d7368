# SPDX-License-Identifier: Apache-2.0
"""Behaviour of all commands: errors in a line, signals, exit status, and deprecated names."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from placement_sched.cli import main as program
from placement_sched.cli.main import EARLIER, convert_spelling, main
from placement_sched.errors import Invalid
from tests.support.repository import ROOT
from tests.support.servers import PROGRAM, build_environment, wait_until

pytestmark = pytest.mark.slow


def run_installed_program(folder: Path, arguments: str, stdout: Any) -> tuple[int, str]:
    """Run the installed program, and return its status and standard error."""
    result = subprocess.run(
        [PROGRAM, *arguments.split()],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=build_environment(PYTHONUNBUFFERED=""),
        check=False,
        timeout=240,
    )
    return result.returncode, result.stderr


def test_version_option_prints_the_package_version(run_main):
    assert run_main("--version") == (0, f"placement-sched {version('placement_sched')}\n", "")


@pytest.mark.parametrize("arguments", [[], ["--debug"]], ids=["bare", "debug"])
def test_command_line_without_a_command_prints_the_help(run_main, arguments):
    assert run_main(*arguments) == (0, run_main("--help")[1], "")


def test_closed_output_pipe_exits_with_141_without_a_message(tmp_path):
    reader, writer = os.pipe()
    os.close(reader)  # closed before the first line, like by ``head``
    with os.fdopen(writer, "w") as pipe:
        assert run_installed_program(tmp_path, "config sample", pipe) == (141, "")


@pytest.mark.parametrize(
    "arguments",
    [
        *("--version", "db version --format json"),
        *(
            pytest.param(words, marks=pytest.mark.exhaustive)
            for words in ("config sample", "config sample --help")
        ),
    ],
)
def test_full_disk_at_standard_output_is_reported_in_one_line(arguments, tmp_path):
    (tmp_path / "placement_sched.db").touch()
    words = "placement-sched: standard output: No space left on device\n"
    with Path("/dev/full").open("w") as full:
        assert run_installed_program(tmp_path, arguments, full) == (1, words)


#: Number of the read system call by architecture.
READ_SYSCALL_NUMBERS = {"x86_64": "0", "aarch64": "63"}


@contextmanager
def start_command_that_reads_stdin(
    directory: Path, *, sigint_handler: Any
) -> Iterator[subprocess.Popen[str]]:
    """Start a command that reads its input. ``interrupt`` is its handler of SIGINT.

    Processes inherit ignored signals. The tests themselves may run in a background job.
    """
    previous_handler = signal.signal(signal.SIGINT, sigint_handler)
    try:
        process = subprocess.Popen(
            [PROGRAM, "select", "-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=directory,
            env=build_environment(),
        )
    finally:
        signal.signal(signal.SIGINT, previous_handler)
    with process:
        try:
            wait_until_reading_stdin(process.pid)
            yield process
        finally:
            process.kill()


def test_command_interrupted_by_sigint_prints_one_line(tmp_path):
    with start_command_that_reads_stdin(
        tmp_path, sigint_handler=signal.default_int_handler
    ) as process:
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert error == "placement-sched: interrupted\n"
    assert process.returncode == 130


@pytest.mark.exhaustive
def test_command_in_a_background_job_ignores_sigint(tmp_path):
    with start_command_that_reads_stdin(tmp_path, sigint_handler=signal.SIG_IGN) as process:
        process.send_signal(signal.SIGINT)
        _, error = process.communicate("no JSON", timeout=60)
    assert "interrupted" not in error
    assert process.returncode == 1


def wait_until_reading_stdin(pid: int) -> None:
    """Wait until the process sleeps in a read of its standard input, a pipe."""
    assert wait_until(lambda: is_reading_stdin(pid), 240), "it never read its input"


def is_reading_stdin(pid: int) -> bool:
    """Return whether a process waits for its standard input, if the kernel shows it.

    Some kernels do not show the wait channel. They show the system call: its first argument 0
    is the standard input.
    """
    if "pipe" in Path(f"/proc/{pid}/wchan").read_text():
        return True
    try:
        number, *arguments = Path(f"/proc/{pid}/syscall").read_text().split()
    except PermissionError:
        return False
    return number == READ_SYSCALL_NUMBERS.get(os.uname().machine) and arguments[0] == "0x0"


class FailingCommand:
    """A module with the command ``fail``, which raises an exception."""

    def __init__(self, failure: BaseException) -> None:
        self.failure = failure

    def register(self, commands) -> None:
        commands.add_parser("fail").set_defaults(run=self.run)

    def run(self, _arguments) -> int:
        raise self.failure


@pytest.fixture
def run_failing_command(monkeypatch, capsys):
    """Return a function that runs a command that raises ``failure``: status and stderr."""

    def run_and_get_error(failure: BaseException, *arguments: str) -> tuple[int, str]:
        monkeypatch.setitem(sys.modules, "failing", FailingCommand(failure))
        monkeypatch.setattr(program, "GROUPS", {"failing": {"fail": "fail"}})
        status = program.main([*arguments, "fail"])
        return status, capsys.readouterr().err

    return run_and_get_error


def test_error_of_a_command_is_printed_in_one_line(run_failing_command):
    assert run_failing_command(Invalid("no such\n\n  thing")) == (
        1,
        "placement-sched: no such thing\n",
    )


def test_unexpected_error_of_a_command_is_printed_with_the_debug_option(run_failing_command):
    status, error = run_failing_command(RuntimeError("a\nb"))
    assert status == 1
    assert error == (
        "placement-sched: unexpected RuntimeError: a b (a defect: --debug shows the traceback)\n"
    )


def test_os_error_of_a_command_is_printed_without_the_debug_option(run_failing_command):
    denied = PermissionError(errno.EACCES, "Permission denied", "some/file")
    assert run_failing_command(denied) == (1, "placement-sched: some/file: Permission denied\n")
    assert run_failing_command(TimeoutError("timed\nout")) == (1, "placement-sched: timed out\n")
    assert "Traceback" in run_failing_command(denied, "--debug")[1]


@pytest.mark.parametrize(
    ("deprecated_command", "current"),
    [
        ("hosts list --zone az1", "host list --zone az1"),
        ("decisions show --request-id req-1", "decision show --request-id req-1"),
        ("adopt nova --config-file nova.conf", "nova adopt --config-file nova.conf"),
        ("nova shadow report --since 1d", "nova-shadow report --since 1d"),
        ("placement sync-aggregates --verbose", "placement sync_aggregates --verbose"),
        ("placement sync-traits", "placement sync_traits"),
        ("placement heal-allocations --dry-run", "placement heal_allocations --dry-run"),
        ("--debug hosts list", "--debug host list"),
        ("help hosts show", "host show --help"),
        ("help", "--help"),
    ],
)
def test_deprecated_command_runs_the_current_command(deprecated_command, current):
    assert convert_spelling(deprecated_command.split()) == current.split()


@pytest.mark.parametrize("current", EARLIER.values(), ids=" ".join)
def test_replacement_of_a_deprecated_command_exists(current, capsys):
    with pytest.raises(SystemExit) as end:
        main([*current, "--help"])
    assert end.value.code == 0
    assert f"placement-sched {' '.join(current)} " in capsys.readouterr().out


def test_guide_lists_every_deprecated_command():
    page = (ROOT / "doc/source/commands.rst").read_text()
    assert [earlier for earlier in map(" ".join, EARLIER) if earlier not in page] == []


def test_deprecated_command_name_as_an_argument_is_unchanged():
    typed = ["explain", "--project", "hosts", "placement", "sync-traits"]
    assert convert_spelling(typed) == typed
    assert convert_spelling(["placement", "--dry-run"]) == ["placement", "--dry-run"]
    assert convert_spelling(["placement", ""]) == ["placement", ""]


def test_help_command_equals_the_help_option(capsys):
    printed = []
    for arguments in (["help", "host", "list"], ["host", "list", "--help"]):
        with pytest.raises(SystemExit) as end:
            main(arguments)
        assert end.value.code == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert printed[0].startswith("usage: placement-sched host list ")
