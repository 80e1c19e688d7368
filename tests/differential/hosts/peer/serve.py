# SPDX-License-Identifier: Apache-2.0
"""Serves nova's host filters and weighers, line by line."""

import sys
from pathlib import Path

#: What makes nova's objects of a request, and what serves line by line, lies there.
sys.path.append(str(Path(__file__).resolve().parents[2] / "nova" / "peer"))

from serving import serve


def _nova():
    from judging import Nova  # nova looks at its environment while it is imported

    return Nova()


if __name__ == "__main__":
    serve(_nova)
