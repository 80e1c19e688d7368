# SPDX-License-Identifier: Apache-2.0
"""Serves nova's way from a request to its query, line by line.

Run by the interpreter of the peer's own virtual environment: ``python serve.py``. A request has
``request_spec`` (as ``/scheduler/v1`` takes it), the facts of its cloud (see :mod:`facts`) and
``options``; what goes out, see :mod:`asking`.
"""

from serving import serve


def _nova():
    from asking import Nova  # nova looks at its environment while it is imported

    return Nova()


if __name__ == "__main__":
    serve(_nova)
