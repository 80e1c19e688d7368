# SPDX-License-Identifier: Apache-2.0
"""Serves nova's way from a request to its query, line by line."""

from serving import serve


def _nova():
    from asking import Nova  # nova looks at its environment while it is imported

    return Nova()


if __name__ == "__main__":
    serve(_nova)
