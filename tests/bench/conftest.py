# SPDX-License-Identifier: Apache-2.0
"""The benchmarks are scripts beside each other: their folder is on the path while they run."""

import sys

from tests.support.repository import ROOT

sys.path.append(str(ROOT / "bench"))
