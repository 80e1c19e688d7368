# SPDX-License-Identifier: Apache-2.0
"""Fixtures for nova's PCI pools (with the peers' interpreter) and for ours."""

from tests.differential.duel import comparison_fixtures
from tests.differential.pci.duel import PciComparison

comparison, ours, theirs = comparison_fixtures(PciComparison)
