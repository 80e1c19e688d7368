# SPDX-License-Identifier: Apache-2.0
"""Nova's fit of NUMA nodes and ours; needs the virtual environment of the peers."""

from tests.differential.duel import comparison_fixtures
from tests.differential.numa.duel import NumaComparison

comparison, ours, theirs = comparison_fixtures(NumaComparison)
