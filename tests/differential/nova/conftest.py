# SPDX-License-Identifier: Apache-2.0
"""Nova's functions and our explain; needs the virtual environment of the peers."""

from tests.differential.duel import comparison_fixtures
from tests.differential.nova.duel import NovaComparison

comparison, ours, theirs = comparison_fixtures(NovaComparison)
