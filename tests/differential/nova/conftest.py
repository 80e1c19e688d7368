# SPDX-License-Identifier: Apache-2.0
"""Nova's functions and our explain; needs the virtual environment of the peers."""

from tests.differential.duel import fixtures
from tests.differential.nova.duel import NovaDuel

duel, ours, theirs = fixtures(NovaDuel)
