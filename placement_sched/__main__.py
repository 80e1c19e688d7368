# SPDX-License-Identifier: Apache-2.0
"""Entry point of ``python -m placement_sched``."""

import sys

from placement_sched.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
