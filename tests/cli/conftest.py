"""Running ``placement-sched`` as its users do: as a process of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

PROGRAM = Path(sys.executable).with_name("placement-sched")


def environment(**variables: str) -> dict[str, str]:
    """This process's environment without settings of its own, and with ``variables``."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("OS_")}
    return {**kept, **variables}


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a command to its end, in an empty working directory."""

    def run(*arguments: str, stdin: str = "", **variables: str):
        return subprocess.run(
            [PROGRAM, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            cwd=tmp_path,
            env=environment(**variables),
            check=False,
        )

    return run


@dataclass
class Server:
    """A running ``placement-sched serve``."""

    process: subprocess.Popen[str]
    url: str
    startup: str
    log: Path

    def get(self, path: str, token: str = "admin", **headers: str) -> tuple[int, dict, bytes]:
        request = Request(self.url + path, headers={"X-Auth-Token": token, **headers})
        try:
            with urlopen(request, timeout=30) as answer:
                return answer.status, dict(answer.headers), answer.read()
        except HTTPError as refusal:
            with refusal:
                return refusal.code, dict(refusal.headers), refusal.read()

    def send(self, method: str, path: str, body: object, **more: str) -> tuple[int, Any]:
        """Send JSON as the administrator; return the status and the answer, if there is one."""
        headers = {"X-Auth-Token": "admin", "Content-Type": "application/json", **more}
        data = json.dumps(body).encode()
        try:
            with urlopen(
                Request(self.url + path, data, headers, method=method), timeout=30
            ) as answer:
                return answer.status, json.loads(answer.read() or b"{}")
        except HTTPError as refusal:
            with refusal:
                return refusal.code, json.loads(refusal.read())

    def post(self, path: str, body: object) -> tuple[int, Any]:
        return self.send("POST", path, body)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(timeout=30)

    def wait_for(self, path: str, status: int, seconds: float = 30) -> None:
        """Ask until the answer has this status."""
        end = time.monotonic() + seconds
        seen: object = None
        while time.monotonic() < end:
            try:
                seen = self.get(path)[0]
            except (URLError, OSError) as failure:
                seen = failure
            if seen == status:
                return
            time.sleep(0.05)
        raise AssertionError(f"{path} is {seen}, not {status}; log: {self.log.read_text()}")


@contextmanager
def serving(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Give a function that starts a server on a free port; stop them all at the end."""
    servers: list[Server] = []
    with ExitStack() as stack:

        def serve(*arguments: str, ready: str | None = "/placement/", **variables: str) -> Server:
            log = tmp_path / f"server{len(servers)}.log"
            process = stack.enter_context(
                subprocess.Popen(
                    [PROGRAM, "serve", "--port", "0", *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=stack.enter_context(log.open("w")),
                    stderr=subprocess.STDOUT,
                    text=True,
                    cwd=tmp_path,
                    # A slow machine may take longer for a test than hosts may be silent.
                    env=environment(**{"OS_DEFAULT__SERVICE_DOWN_TIME": "86400", **variables}),
                )
            )
            stack.callback(process.terminate)
            startup = _first_line(log, process)
            server = Server(process, startup.split()[2], startup, log)
            servers.append(server)
            if ready is not None:
                server.wait_for(ready, 200)
            return server

        yield serve


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Start a server on a free port, wait until it answers, and stop it at the end."""
    with serving(tmp_path) as serve:
        yield serve


def _first_line(log: Path, process: subprocess.Popen[str]) -> str:
    end = time.monotonic() + 120  # the machine may be busy
    while time.monotonic() < end:
        lines = log.read_text().splitlines()
        started = [line for line in lines if line.startswith("placement-sched serves ")]
        if started:
            return started[0]
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise AssertionError(f"the server did not start: {log.read_text()}")
