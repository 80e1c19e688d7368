# SPDX-License-Identifier: Apache-2.0
"""Nova's filters and weighers, and ours; needs the virtual environment of the peers."""

from tests.differential.duel import comparison_fixtures
from tests.differential.hosts.duel import HostsComparison

comparison, ours, theirs = comparison_fixtures(HostsComparison)
