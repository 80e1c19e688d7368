# SPDX-License-Identifier: Apache-2.0
"""The documentation has an entry for each intended difference."""

from itertools import pairwise

import pytest

from tests.differential import explained
from tests.differential.hosts import explained as hosts
from tests.differential.nova import explained as nova
from tests.differential.pci import explained as pci
from tests.support.repository import ROOT

pytestmark = pytest.mark.system

ALLOWED_DIFFERENCES_FILE = ROOT / "doc" / "source" / "allowed_differences.txt"


def test_every_explanation_is_documented_with_a_reason():
    lines = ALLOWED_DIFFERENCES_FILE.read_text().splitlines()
    entries = {name for name, reason in pairwise(lines) if reason[:1] == " "}
    for module in (explained, hosts, nova, pci):
        assert {name[0].upper() + name[1:] for name in module.EXPLANATIONS} <= {
            entry[0].upper() + entry[1:] for entry in entries if entry.strip()
        }
