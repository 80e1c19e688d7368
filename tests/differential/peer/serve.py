# SPDX-License-Identifier: Apache-2.0
"""Serves openstack-placement, line by line: a request as JSON comes in, its answer goes out."""

import json
import os
import sys
import tempfile
from pathlib import Path

from wsgi_call import call  # the folder of a script is on its path


def main():
    url = sys.argv[1]
    # Only answers may go to whoever started this; what the peer prints or logs goes nowhere.
    answers = os.fdopen(os.dup(1), "w")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    if "--log" not in sys.argv:
        os.dup2(nowhere, 2)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["OS_PLACEMENT_CONFIG_DIR"] = folder
        Path(folder, "placement.conf").write_text(
            "[api]\nauth_strategy = noauth2\n"
            f"[placement_database]\nsync_on_startup = true\nconnection = {url}\n"
        )
        from placement.wsgi import api  # it reads its configuration while it is imported

        answers.write("ready\n")
        answers.flush()
        for line in sys.stdin:
            answers.write(json.dumps(call(api.application, json.loads(line))) + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
