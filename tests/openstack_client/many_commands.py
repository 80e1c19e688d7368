# SPDX-License-Identifier: Apache-2.0
"""Run many ``openstack`` commands in a single process, which starts Python only once.

Each line of input is a JSON list of arguments. Each line of output is a JSON list of the exit
status, standard output and standard error.
"""

import contextlib
import io
import json
import os
import sys

from openstackclient.shell import main


def run_openstack_command(arguments: list[str]) -> tuple[int, str, str]:
    """Run a command as the ``openstack`` script does."""
    with (
        contextlib.redirect_stdout(io.StringIO()) as output,
        contextlib.redirect_stderr(io.StringIO()) as errors,
    ):
        try:
            status = main(arguments)
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 2
    return status, output.getvalue(), errors.getvalue()


if __name__ == "__main__":
    # Commands that read standard input, such as ``image create``, read nothing.
    lines = os.fdopen(os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdin = os.fdopen(0)
    for line in lines:
        sys.stdout.write(json.dumps(run_openstack_command(json.loads(line))) + "\n")
        sys.stdout.flush()
