# SPDX-License-Identifier: Apache-2.0
"""Fixtures for nova's PCI pools (with the peers' interpreter) and for ours."""

from tests.differential.comparison import comparison_fixtures
from tests.differential.pci.comparison import PciComparison

comparison, ours, theirs = comparison_fixtures(PciComparison)
