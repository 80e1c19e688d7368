# SPDX-License-Identifier: Apache-2.0
"""A program that runs nova's host filters and weighers on each line of JSON."""

import sys
from pathlib import Path

#: The folder of the modules ``building`` and ``serving``.
sys.path.append(str(Path(__file__).resolve().parents[2] / "nova" / "peer"))

from serving import serve


def _nova():
    from plugins import Nova  # nova reads the environment during its import

    return Nova()


if __name__ == "__main__":
    serve(_nova)
