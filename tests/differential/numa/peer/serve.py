# SPDX-License-Identifier: Apache-2.0
"""A program that runs nova's fit of NUMA nodes on each line of JSON."""

import json
import os
import sys
import warnings


def main():
    # Stdout is only for answers. The output and logs of nova are discarded.
    answers = os.fdopen(os.dup(1), "w")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    if "--log" not in sys.argv:
        os.dup2(nowhere, 2)
    os.environ["OS_NOVA_DISABLE_EVENTLET_PATCHING"] = "1"
    warnings.simplefilter("ignore")
    from fitting import Nova  # nova reads the environment during its import

    nova = Nova()
    answers.write("ready\n")
    answers.flush()
    for line in sys.stdin:
        answers.write(json.dumps(nova.answer(json.loads(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
