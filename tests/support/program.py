# SPDX-License-Identifier: Apache-2.0
"""``placement-sched`` in a process of its own, forked from one that has imported it already.

Importing takes most of the time of a short command, and hundreds of tests run one. What the forked
process gets is what a shell would give it: arguments, environment, working directory and streams.
``tests/cli/test_main.py`` and ``test_starting.py`` run the installed program itself, as do tests
that set what is read at the import, such as another path.
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
#: Larger than any command with its environment.
MOST = 1 << 20
#: What is read when Python starts, or prometheus-client is imported.
AT_IMPORT = ("PYTHON", "PROMETHEUS")
#: Commands that start without a nova.
OWN = ("serve", "config", "db", "select", "explain", "capacity", "policy", "fleet", "status")
DATABASE = "[placement_database]\n"
PROGRAM = Path(sys.executable).with_name("placement-sched")


class Running:
    """A process that was started, with the methods of :class:`subprocess.Popen` that tests use."""

    def __init__(self, parent: socket.socket) -> None:
        self._parent = parent
        parent.settimeout(240)
        self.pid: int = json.loads(parent.recv(100))
        self.returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status, or minus the signal; raise ``TimeoutExpired``."""
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
        """Send a signal if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait(timeout=120)


Process = subprocess.Popen[Any] | Running


def start(
    arguments: Sequence[object], *, cwd: Path, env: Mapping[str, str], streams: Sequence[IO[Any]]
) -> Process:
    """Start ``placement-sched`` with these arguments; ``streams`` are stdin, stdout and stderr."""
    env = with_database(arguments, cwd, env)
    if any(env[name] != os.environ.get(name) for name in env if name.startswith(AT_IMPORT)):
        stdin, stdout, stderr = streams
        return subprocess.Popen(
            [PROGRAM, *arguments], stdin=stdin, stdout=stdout, stderr=stderr, cwd=cwd, env=env
        )
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    what = {"arguments": [str(one) for one in arguments], "cwd": str(cwd), "env": dict(env)}
    with its:
        files = [*(stream.fileno() for stream in streams), its.fileno()]
        socket.send_fds(_importer(), [json.dumps(what).encode()], files)
    return Running(ours)


def with_database(
    arguments: Sequence[object], cwd: Path, env: Mapping[str, str]
) -> Mapping[str, str]:
    """Return an environment that names the database if files of ``--config-file`` name none.

    Files of tests are about other options; nova's commands say themselves what they lack.
    """
    words = [str(one) for one in arguments]
    named = [
        cwd / value for key, value in pairwise(words) if key == "--config-file" and words[0] in OWN
    ]
    files = [file for file in named if file.is_file()]
    if files and not any(DATABASE in text for text in map(Path.read_text, files)):
        return {"OS_PLACEMENT_DATABASE__CONNECTION": "sqlite:///placement_sched.db", **env}
    return env


def run(
    *arguments: object, cwd: Path, env: Mapping[str, str], stdin: str = "", timeout: float = 240
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; raise ``TimeoutExpired`` where it takes longer."""
    with TemporaryFile("w+") as given, TemporaryFile("w+") as out, TemporaryFile("w+") as err:
        given.write(stdin)
        given.seek(0)
        process = start(arguments, cwd=cwd, env=env, streams=[given, out, err])
        try:
            status = process.wait(timeout)
        finally:
            process.kill()
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(arguments, status, out.read(), err.read())


@cache
def _importer() -> socket.socket:
    """Start the process that imports and forks; it ends with this one, which holds the socket."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        command = [sys.executable, "-m", __name__, str(its.fileno())]
        process = subprocess.Popen(
            command, pass_fds=[its.fileno()], cwd=ROOT, stdin=subprocess.DEVNULL
        )
    atexit.register(process.wait)
    atexit.register(ours.close)
    return ours


def _serve(commands: socket.socket) -> None:
    """Start a process for each command that comes, until the other end is closed."""
    for module in (ROOT / "placement_sched" / "cli").rglob("*.py"):
        if module.stem == "openstack_client":  # openstacksdk notes the working directory
            continue
        import_module(".".join(module.relative_to(ROOT).with_suffix("").parts))
    gc.freeze()
    while True:
        message, files, *_ = socket.recv_fds(commands, MOST, 4)
        if not message:
            return
        if not os.fork():
            commands.close()
            _run(json.loads(message), files[:3], socket.socket(fileno=files[3]))
        for file in files:
            os.close(file)
        while _reap_process():
            pass


def _reap_process() -> bool:
    """Take note of a process that waited for a command and ended."""
    try:
        return os.waitpid(-1, os.WNOHANG) != (0, 0)
    except ChildProcessError:
        return False


def _run(what: dict[str, Any], streams: Sequence[int], parent: socket.socket) -> None:
    """Run a command in a process of its own, and report its pid and then its status."""
    if command := os.fork():
        for stream in streams:
            os.close(stream)
        parent.send(json.dumps(command).encode())
        status = os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])
        parent.send(json.dumps(status).encode())
        os._exit(0)
    parent.close()
    # A shell has commands in the background, and so the tests that it started there, ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(what["cwd"])
    os.environ.clear()
    os.environ.update(what["env"])
    time.tzset()
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115
    sys.stderr.reconfigure(errors="backslashreplace", line_buffering=True)
    sys.argv = ["placement-sched", *what["arguments"]]
    sys.exit(import_module("placement_sched.cli.main").main())


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
