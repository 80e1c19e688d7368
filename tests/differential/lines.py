# SPDX-License-Identifier: Apache-2.0
"""A program that answers each line of JSON with one, asked from here."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any


class Lines:
    """The program, until it is closed; its first line says that it is ready."""

    def __init__(self, *command: str | Path) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # In whatever order a program takes a set, it is the same every time.
            env={**os.environ, "PYTHONHASHSEED": "0"},
        )
        if self._process.stdout.readline() != "ready\n":
            raise RuntimeError(f"it did not start: {' '.join(map(str, command))}")

    def ask(self, question: Any) -> Any:
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._process.stdout.close()
