# SPDX-License-Identifier: Apache-2.0
"""Serves nova's PCI pools, its filter and its weigher, line by line.

Run by the interpreter of the peer's own virtual environment: ``python serve_pools.py``. What comes
in is a question of ``tests/differential/pci/generate.py``; what goes out, see :mod:`pools`.
"""

from serving import serve


def _nova():
    from pools import Nova  # nova looks at its environment while it is imported

    return Nova()


if __name__ == "__main__":
    serve(_nova)
