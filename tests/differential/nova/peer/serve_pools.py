# SPDX-License-Identifier: Apache-2.0
"""Serves nova's PCI pools, its filter and its weigher, line by line."""

from serving import serve


def _nova():
    from pools import Nova  # nova looks at its environment while it is imported

    return Nova()


if __name__ == "__main__":
    serve(_nova)
