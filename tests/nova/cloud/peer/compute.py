# SPDX-License-Identifier: Apache-2.0
"""Run nova-compute with the driver in this folder."""

import sys
from pathlib import Path

import nova.cmd.compute  # before anything else of nova: it decides how threads are made
import nova.virt

nova.virt.__path__.append(str(Path(__file__).parent))
sys.argv[0] = "nova-compute"
nova.cmd.compute.main()
