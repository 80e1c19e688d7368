# SPDX-License-Identifier: Apache-2.0
"""Servers in processes on free ports, mostly ``placement-sched serve``."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.support import program as forked
from tests.support.loopback import reserve_port

PROGRAMS_FOLDER = forked.PROGRAM.parent
PROGRAM = forked.PROGRAM
#: Begin of the line with the address of ``placement-sched serve``.
START_LOG_TEXT = "placement-sched serves "


def build_environment(**variables: str) -> dict[str, str]:
    """Return the environment without an operator's settings, with ``variables``."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("OS_")}
    return {**kept, **variables}


def wait_until(true: Callable[[], object], seconds: float = 60, *, pause: float = 0.05) -> bool:
    """Poll ``true`` until it is and return whether it became true in time."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(pause)
    return True


def rewrite_file(file: Path, text: str) -> None:
    """Replace the content of a file at once: readers never see a part of the text."""
    new = file.with_name(f"{file.name}.new")
    new.write_text(text)
    new.replace(file)


def read_whole_lines(file: Path) -> list[str]:
    """Return the lines of a file that another process may be writing, without a begun line."""
    return file.read_text().rpartition("\n")[0].splitlines()


@dataclass
class Server:
    """A running server with its start line and the log of its output."""

    process: forked.Process
    url: str
    startup: str
    log: Path

    def get(self, path: str, token: str = "admin", **headers: str) -> tuple[int, dict, bytes]:
        """Return status, headers and body of a response."""
        request = Request(self.url + path, headers={"X-Auth-Token": token, **headers})
        return _send_request(request)

    def send(self, method: str, path: str, body: object, **more: str) -> tuple[int, Any]:
        """Send JSON as the administrator and return the status and the document."""
        headers = {"X-Auth-Token": "admin", "Content-Type": "application/json", **more}
        data = None if body is None else json.dumps(body).encode()
        status, _, text = _send_request(Request(self.url + path, data, headers, method=method))
        return status, json.loads(text or b"{}")

    def post(self, path: str, body: object) -> tuple[int, Any]:
        return self.send("POST", path, body)

    def request_json(
        self, method: str, path: str, body: Any = None, version: str | None = None
    ) -> Any:
        """Return the document of a successful response."""
        headers = {} if version is None else {"OpenStack-API-Version": version}
        status, response = self.send(method, path, body, **headers)
        assert status < 300, response
        return response

    def workers(self) -> set[int]:
        """Return the ids of the worker processes."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return {int(number) for number in children.split()}

    def wait_for_first_status(self, path: str, **headers: str) -> int:
        responses: list[int] = []

        def has_response() -> bool:
            assert self.process.poll() is None, self.log.read_text()
            try:
                responses.append(_send_request(Request(self.url + path, headers=headers))[0])
            except OSError:
                return False
            return True

        assert wait_until(has_response, 240), self.log.read_text()
        return responses[0]

    def read_log_lines(self) -> list[str]:
        return read_whole_lines(self.log)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Stop the server and return its exit status."""
        self.process.send_signal(how)
        return self.process.wait(timeout=60)

    def wait_for(self, path: str, status: int, seconds: float = 60) -> None:
        """Repeat a GET until it has this status."""
        seen: list[object] = []

        def has_status() -> bool:
            try:
                seen.append(self.get(path)[0])
            except OSError as failure:
                seen.append(failure)
            return seen[-1] == status or self.process.poll() is not None

        wait_until(has_status, seconds)
        log = self.log.read_text()
        assert seen[-1] == status, f"{path} is {seen[-1]}, not {status}; log: {log}"


@contextmanager
def start_server(
    *arguments: str | Path,
    folder: Path,
    log: Path | None = None,
    errors: Path | None = None,
    start_line: str = START_LOG_TEXT,
    ready: str | None = "/placement/",
    variables: Mapping[str, str] | None = None,
    program: Path | None = None,
    command: Sequence[str | Path] | None = None,
    how: signal.Signals = signal.SIGTERM,
) -> Iterator[Server]:
    """Run ``placement-sched serve`` with these arguments on a free port.

    It runs in ``folder`` with the environment ``variables`` (default: :func:`build_environment`).
    The server is yielded after it has written ``start_line``, and after ``ready``, if that is a
    path, has status 200. It is forked (``tests/support/program.py``), or the installed
    ``program``. A ``command`` starts another server, with the port in place of ``{port}``, and
    needs no start line. stderr goes to ``log``, too, or to ``errors``. ``how`` is the signal
    that stops it.
    """
    log = log or folder / "server.log"
    env = build_environment() if variables is None else variables
    with ExitStack() as stack:
        output = stack.enter_context(log.open("w"))
        failures = output if errors is None else stack.enter_context(errors.open("w"))
        streams = [stack.enter_context(Path(os.devnull).open()), output, failures]
        port = "0"
        if command is not None:
            port = str(stack.enter_context(reserve_port()).getsockname()[1])
        argv = [str(part).replace("{port}", port) for part in command or ()]
        if command is None:
            argv = ["serve", "--port", port, *map(str, arguments)]
            env = dict(forked.add_database_to_environment(argv, folder, env))
        if command is None and program is None:
            process = forked.start_program(argv, cwd=folder, env=env, streams=streams)
        else:
            argv = argv if program is None else [str(program), *argv]
            process = _start_process(argv, folder, env, streams)
        stack.callback(_stop_process, process, how)
        line = "" if command else _wait_for_start_line(start_line, [log, errors or log], process)
        url = line.split()[2] if line.startswith(START_LOG_TEXT) else f"http://127.0.0.1:{port}"
        server = Server(process, url, line, log)
        if ready is not None:
            server.wait_for(ready, 200, 120)
        yield server


def _start_process(
    argv: Sequence[str], folder: Path, env: Mapping[str, str], streams: Sequence[IO[Any]]
) -> subprocess.Popen[Any]:
    stdin, stdout, stderr = streams
    return subprocess.Popen(argv, stdin=stdin, stdout=stdout, stderr=stderr, cwd=folder, env=env)


def _stop_process(process: forked.Process, how: signal.Signals) -> None:
    """Stop a server that still runs. If it does not stop in time, kill it and fail."""
    process.send_signal(how)
    try:
        process.wait(timeout=120)
    except subprocess.TimeoutExpired:
        process.kill()
        raise


@contextmanager
def start_servers(folder: Path) -> Iterator[Callable[..., Server]]:
    """Yield a function that starts servers with logs in ``folder``, and stop them at the end."""
    with ExitStack() as stack:
        numbers = iter(range(1000))

        def serve(*arguments: str, ready: str | None = "/placement/", **variables: str) -> Server:
            # Hosts stay up even if a test takes long on a slow machine.
            settings = build_environment(**{"OS_DEFAULT__SERVICE_DOWN_TIME": "86400", **variables})
            log = folder / f"server{next(numbers)}.log"
            return stack.enter_context(
                start_server(*arguments, folder=folder, log=log, ready=ready, variables=settings)
            )

        yield serve


@contextmanager
def serve_database(folder: Path, connection: str | None = None) -> Iterator[Server]:
    """Run a server on the database ``connection``, or on an SQLite file in ``folder``."""
    config = folder / "placement.conf"
    config.write_text(
        # Hosts stay up even if a test takes long on a slow machine.
        "[DEFAULT]\nservice_down_time = 86400\n[placement_database]\nsync_on_startup = true\n"
        f"connection = {connection or f'sqlite:///{folder}/sched.db'}\n"
    )
    with start_server("--config-file", config, folder=folder) as server:
        yield server


def _wait_for_start_line(text: str, files: Sequence[Path], process: forked.Process) -> str:
    """Return the line with ``text`` in the output of a server."""
    lines: list[str] = []

    def has_started_or_ended() -> bool:
        has_ended = process.poll() is not None
        lines.extend(line for file in files for line in file.read_text().splitlines())
        lines[:] = [line for line in lines if text in line]
        return bool(lines) or has_ended

    wait_until(has_started_or_ended, 240)  # the machine may be busy
    written = "".join(file.read_text() for file in dict.fromkeys(files))
    assert lines, f"the server did not start: {written}"
    return lines[0]


def _send_request(request: Request) -> tuple[int, dict, bytes]:
    try:
        with urlopen(request, timeout=60) as response:
            return response.status, dict(response.headers), response.read()
    except HTTPError as rejection:
        with rejection:
            return rejection.code, dict(rejection.headers), rejection.read()
