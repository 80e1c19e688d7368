# SPDX-License-Identifier: Apache-2.0
"""Nova's fit of NUMA nodes and ours; needs the virtual environment of the peers."""

from tests.differential.duel import fixtures
from tests.differential.numa.duel import NumaDuel

duel, ours, theirs = fixtures(NumaDuel)
