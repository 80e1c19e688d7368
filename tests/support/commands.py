# SPDX-License-Identifier: Apache-2.0
"""Commands that a test runs to their end."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def run_captured(
    command: Sequence[str | Path], *, check: bool = False, timeout: float = 240, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command and return its status with the text of both streams."""
    return subprocess.run(
        command, capture_output=True, text=True, check=check, timeout=timeout, **options
    )
