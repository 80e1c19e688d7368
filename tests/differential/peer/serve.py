# SPDX-License-Identifier: Apache-2.0
"""A program that sends each line of JSON as a request to openstack-placement."""

import json
import os
import sys
import tempfile
from pathlib import Path

from wsgi_call import call_application  # the folder of a script is on its path


def main():
    url = sys.argv[1]
    # Stdout is only for responses. The output and logs of the peer are discarded.
    responses = os.fdopen(os.dup(1), "w")
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
        from placement.wsgi import api  # it reads its configuration during the import

        responses.write("ready\n")
        responses.flush()
        for line in sys.stdin:
            responses.write(json.dumps(call_application(api.application, json.loads(line))) + "\n")
            responses.flush()


if __name__ == "__main__":
    main()
