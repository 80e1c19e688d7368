# SPDX-License-Identifier: Apache-2.0
"""A client of a program that answers each line of JSON with a line of JSON."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

#: The program that calls the class ``NovaCaller`` of a module.
SERVE_NOVA_PROGRAM = Path(__file__).parent / "nova" / "peer" / "serving.py"


class JsonLineProgram:
    """A running program. Its first line is ``ready``."""

    def __init__(self, *command: str | Path) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # The order of sets is the same in each run.
            env={**os.environ, "PYTHONHASHSEED": "0"},
        )
        if self._process.stdout.readline() != "ready\n":
            raise RuntimeError(f"the program did not start: {' '.join(map(str, command))}")

    def exchange_json_line(self, document: Any) -> Any:
        self._process.stdin.write(json.dumps(document) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def kill(self) -> None:
        """End the program, so that a waiting exchange raises :class:`ValueError`."""
        self._process.kill()

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._process.stdout.close()
