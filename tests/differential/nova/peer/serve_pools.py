# SPDX-License-Identifier: Apache-2.0
"""A program that runs nova's PCI pools, filter and weigher on each line of JSON."""

from serving import serve


def _nova():
    from pools import Nova  # nova reads the environment during its import

    return Nova()


if __name__ == "__main__":
    serve(_nova)
