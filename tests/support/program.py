# SPDX-License-Identifier: Apache-2.0
"""``placement-sched`` in a process that is forked from a process with all imports.

The import takes most of the time of a short command, and hundreds of tests run commands. The
forked process gets arguments, environment, working directory and streams as from a shell.
``tests/cli/test_main.py`` and ``test_command_imports.py`` run the installed program, and so do
tests that set variables for the import.
"""

import atexit
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Self

ROOT = Path(__file__).parents[2]
#: Maximum size of a command with its environment, in bytes.
MAX_MESSAGE_BYTES = 1 << 20
#: Prefixes of the variables that are read at the start of Python and at the import of
#: prometheus-client.
IMPORT_VARIABLES = ("PYTHON", "PROMETHEUS")
#: Commands that need no nova.
COMMANDS_WITHOUT_NOVA = (
    "serve", "config", "db", "select", "explain", "capacity", "policy", "fleet", "status"
)  # fmt: skip
DATABASE_SECTION_TEXT = "[placement_database]\n"
PROGRAM = Path(sys.executable).with_name("placement-sched")


class RunningProgram:
    """A process with the methods of :class:`subprocess.Popen` that tests use."""

    def __init__(self, parent: socket.socket) -> None:
        self._parent = parent
        parent.settimeout(240)
        self.pid: int = json.loads(parent.recv(100))
        self.returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status, or the negative signal number, or raise ``TimeoutExpired``."""
        if self.returncode is None:
            self._parent.settimeout(timeout)
            try:
                self.returncode = json.loads(self._parent.recv(100))
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(["placement-sched"], timeout or 0) from None
            self._parent.close()
        return self.returncode

    def poll(self) -> int | None:
        """Return the exit status, or None while it runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, number: int) -> None:
        """Send a signal if the process is alive."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait(timeout=120)


Process = subprocess.Popen[Any] | RunningProgram


def start_program(
    arguments: Sequence[object], *, cwd: Path, env: Mapping[str, str], streams: Sequence[IO[Any]]
) -> Process:
    """Start ``placement-sched`` with stdin, stdout and stderr as ``streams``."""
    env = add_database_to_environment(arguments, cwd, env)
    if any(env[name] != os.environ.get(name) for name in env if name.startswith(IMPORT_VARIABLES)):
        stdin, stdout, stderr = streams
        return subprocess.Popen(
            [PROGRAM, *arguments], stdin=stdin, stdout=stdout, stderr=stderr, cwd=cwd, env=env
        )
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    words = [str(argument) for argument in arguments]
    message = {"arguments": words, "cwd": str(cwd), "env": dict(env)}
    with its:
        files = [*(stream.fileno() for stream in streams), its.fileno()]
        socket.send_fds(_start_importer(), [json.dumps(message).encode()], files)
    return RunningProgram(ours)


def add_database_to_environment(
    arguments: Sequence[object], cwd: Path, env: Mapping[str, str]
) -> Mapping[str, str]:
    """Return an environment with a database if no ``--config-file`` names a database.

    Files of tests often set other options only. Commands for nova report a missing database.
    """
    words = [str(argument) for argument in arguments]
    named = [
        cwd / value
        for key, value in pairwise(words)
        if key == "--config-file" and words[0] in COMMANDS_WITHOUT_NOVA
    ]
    files = [file for file in named if file.is_file()]
    if files and not any(DATABASE_SECTION_TEXT in text for text in map(Path.read_text, files)):
        return {"OS_PLACEMENT_DATABASE__CONNECTION": "sqlite:///placement_sched.db", **env}
    return env


def run_program(
    *arguments: object, cwd: Path, env: Mapping[str, str], stdin: str = "", timeout: float = 240
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, or raise ``TimeoutExpired`` after ``timeout`` seconds."""
    with TemporaryFile("w+") as source, TemporaryFile("w+") as out, TemporaryFile("w+") as err:
        source.write(stdin)
        source.seek(0)
        process = start_program(arguments, cwd=cwd, env=env, streams=[source, out, err])
        try:
            status = process.wait(timeout)
        finally:
            process.kill()
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(arguments, status, out.read(), err.read())


@cache
def _start_importer() -> socket.socket:
    """Start the process that imports and forks, and ends when the socket is closed."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        command = [sys.executable, "-m", __name__, str(its.fileno())]
        process = subprocess.Popen(
            command, pass_fds=[its.fileno()], cwd=ROOT, stdin=subprocess.DEVNULL
        )
    atexit.register(process.wait)
    atexit.register(ours.close)
    return ours


def _run_commands_until_closed(commands: socket.socket) -> None:
    """Start a process for each command until the other end is closed."""
    for module in (ROOT / "placement_sched" / "cli").rglob("*.py"):
        if module.stem == "openstack_client":  # openstacksdk notes the working directory
            continue
        import_module(".".join(module.relative_to(ROOT).with_suffix("").parts))
    gc.freeze()
    while True:
        message, files, *_ = socket.recv_fds(commands, MAX_MESSAGE_BYTES, 4)
        if not message:
            return
        if not os.fork():
            commands.close()
            _run_command(json.loads(message), files[:3], socket.socket(fileno=files[3]))
        for file in files:
            os.close(file)
        while _reap_process():
            pass


def _reap_process() -> bool:
    """Reap the parent of a command that has ended and return whether there was such a process."""
    try:
        return os.waitpid(-1, os.WNOHANG) != (0, 0)
    except ChildProcessError:
        return False


def _run_command(message: dict[str, Any], streams: Sequence[int], parent: socket.socket) -> None:
    """Run a command in another process, and report its pid and its exit status."""
    if command := os.fork():
        for stream in streams:
            os.close(stream)
        parent.send(json.dumps(command).encode())
        status = os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])
        parent.send(json.dumps(status).encode())
        os._exit(0)
    parent.close()
    # A shell's background commands ignore SIGINT. The tests and their processes inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(message["cwd"])
    os.environ.clear()
    os.environ.update(message["env"])
    time.tzset()
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115
    sys.stderr.reconfigure(errors="backslashreplace", line_buffering=True)
    sys.argv = ["placement-sched", *message["arguments"]]
    sys.exit(import_module("placement_sched.cli.main").main())


if __name__ == "__main__":
    _run_commands_until_closed(socket.socket(fileno=int(sys.argv[1])))
