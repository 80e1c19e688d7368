# SPDX-License-Identifier: Apache-2.0
"""A loop that answers each line of JSON with a line of JSON, after a first line ``ready``."""

import json
import os
import sys
import warnings


def serve(make):
    # Stdout is only for answers. The output and logs of nova are discarded.
    answers = os.fdopen(os.dup(1), "w")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    if "--log" not in sys.argv:
        os.dup2(nowhere, 2)
    os.environ["OS_NOVA_DISABLE_EVENTLET_PATCHING"] = "1"
    warnings.simplefilter("ignore")
    nova = make()
    answers.write("ready\n")
    answers.flush()
    for line in sys.stdin:
        answers.write(json.dumps(nova.answer(json.loads(line))) + "\n")
        answers.flush()
