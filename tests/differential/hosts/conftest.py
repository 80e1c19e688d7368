# SPDX-License-Identifier: Apache-2.0
"""Nova's filters and weighers, and ours; needs the virtual environment of the peers."""

from tests.differential.duel import fixtures
from tests.differential.hosts.duel import HostsDuel

duel, ours, theirs = fixtures(HostsDuel)
