# SPDX-License-Identifier: Apache-2.0
"""The path of the benchmarks."""

import sys

from tests.support.repository import ROOT

sys.path.append(str(ROOT / "bench"))
