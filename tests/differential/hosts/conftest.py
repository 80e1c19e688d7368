# SPDX-License-Identifier: Apache-2.0
"""Fixtures for nova's filters and weighers (with the peers' interpreter) and for ours."""

from tests.differential.comparison import comparison_fixtures
from tests.differential.hosts.comparison import HostsComparison

comparison, ours, theirs = comparison_fixtures(HostsComparison)
