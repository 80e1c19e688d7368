# SPDX-License-Identifier: Apache-2.0
"""A program that runs nova's fit of NUMA nodes on each line of JSON."""

import sys
from pathlib import Path

#: The folder of the module ``serving``.
sys.path.append(str(Path(__file__).resolve().parents[2] / "nova" / "peer"))

from serving import serve


def _nova():
    from fitting import Nova  # nova reads the environment during its import

    return Nova()


if __name__ == "__main__":
    serve(_nova)
