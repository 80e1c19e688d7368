# SPDX-License-Identifier: Apache-2.0
"""A program that answers each line of JSON with a line of JSON.

The class ``NovaCaller`` of the module whose path is the argument gives the results. The first line
is ``ready``.
"""

import json
import os
import sys
import warnings
from importlib import import_module
from pathlib import Path


def main():
    # Stdout is only for results. The output and logs of nova are discarded.
    results = os.fdopen(os.dup(1), "w")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    if "--log" not in sys.argv:
        os.dup2(nowhere, 2)
    nova = _load_nova(Path(sys.argv[1]))
    results.write("ready\n")
    results.flush()
    for line in sys.stdin:
        results.write(json.dumps(nova.run_case(json.loads(line))) + "\n")
        results.flush()


def _load_nova(module):
    # Nova reads the environment during its import.
    os.environ["OS_NOVA_DISABLE_EVENTLET_PATCHING"] = "1"
    warnings.simplefilter("ignore")
    sys.path.insert(0, str(module.parent))
    responding = import_module(module.stem)
    import nova.conf
    from nova import objects

    nova.conf.CONF([], project="nova", default_config_files=[])
    objects.register_all()
    warnings.simplefilter("ignore")
    return responding.NovaCaller()


if __name__ == "__main__":
    main()
