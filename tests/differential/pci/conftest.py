# SPDX-License-Identifier: Apache-2.0
"""Nova's PCI pools and ours; needs the virtual environment of the peers."""

from tests.differential.duel import comparison_fixtures
from tests.differential.pci.duel import PciComparison

comparison, ours, theirs = comparison_fixtures(PciComparison)
