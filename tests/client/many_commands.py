# SPDX-License-Identifier: Apache-2.0
"""Runs many ``openstack`` commands in one process, which saves each of them the start of Python.

Reads a JSON list of arguments per line and answers with a JSON list per line: the exit status,
what the command wrote, and what it complained of.
"""

import contextlib
import io
import json
import os
import sys

from openstackclient.shell import main


def run_command(arguments: list[str]) -> tuple[int, str, str]:
    """Run one command as the ``openstack`` script does."""
    with (
        contextlib.redirect_stdout(io.StringIO()) as told,
        contextlib.redirect_stderr(io.StringIO()) as complained,
    ):
        try:
            status = main(arguments)
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 2
    return status, told.getvalue(), complained.getvalue()


if __name__ == "__main__":
    # Commands that read what is piped to them, as ``image create`` does, are piped nothing.
    lines = os.fdopen(os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdin = os.fdopen(0)
    for line in lines:
        sys.stdout.write(json.dumps(run_command(json.loads(line))) + "\n")
        sys.stdout.flush()
