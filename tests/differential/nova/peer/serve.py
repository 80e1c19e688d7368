# SPDX-License-Identifier: Apache-2.0
"""A program that builds nova's candidates query for each line of JSON."""

from serving import serve


def _nova():
    from queries import Nova  # nova reads the environment during its import

    return Nova()


if __name__ == "__main__":
    serve(_nova)
