# SPDX-License-Identifier: Apache-2.0
"""Fixtures for nova's functions (with the peers' interpreter) and for our explain API."""

from tests.differential.comparison import comparison_fixtures
from tests.differential.nova.comparison import NovaComparison

comparison, ours, theirs = comparison_fixtures(NovaComparison)
