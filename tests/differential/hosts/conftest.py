# SPDX-License-Identifier: Apache-2.0
"""Fixtures for nova's filters and weighers (with the peers' interpreter) and for ours."""

from tests.differential.duel import comparison_fixtures
from tests.differential.hosts.duel import HostsComparison

comparison, ours, theirs = comparison_fixtures(HostsComparison)
