# SPDX-License-Identifier: Apache-2.0
"""Fixtures for nova's fit of NUMA nodes (with the peers' interpreter) and for ours."""

from tests.differential.comparison import comparison_fixtures
from tests.differential.numa.comparison import NumaComparison

comparison, ours, theirs = comparison_fixtures(NumaComparison)
