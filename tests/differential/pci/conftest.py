# SPDX-License-Identifier: Apache-2.0
"""Nova's PCI pools and ours; needs the virtual environment of the peers."""

from tests.differential.duel import fixtures
from tests.differential.pci.duel import PciDuel

duel, ours, theirs = fixtures(PciDuel)
