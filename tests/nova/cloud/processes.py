# SPDX-License-Identifier: Apache-2.0
"""Programs of a cloud. Each is in its own process group and ends with its children."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.servers import build_environment


@dataclass
class Program:
    """A program that can be stopped and started again."""

    name: str
    command: Sequence[str | Path]
    folder: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [str(part) for part in self.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=build_environment(**self.variables),
                start_new_session=True,
            )

    def suspend(self) -> None:
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGSTOP)

    def kill(self) -> None:
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(timeout=60)

    def stop(self, seconds: float = 60) -> int:
        assert self.process is not None
        self.process.terminate()
        try:
            return self.process.wait(timeout=seconds)
        finally:
            self.kill()

    def run(self) -> str:
        self.start()
        assert self.process is not None
        status = self.process.wait(timeout=300)
        assert status == 0, self.log.read_text()
        return self.log.read_text()

    def read_log_tail(self, number: int = 10) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join([f"--- {self.log}:", *lines[-number:]])
