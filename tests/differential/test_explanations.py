# SPDX-License-Identifier: Apache-2.0
"""The documentation has the name and the reason of each intended difference."""

from pathlib import Path

import pytest

from tests.differential import explained
from tests.differential.hosts import explained as hosts
from tests.differential.nova import explained as nova
from tests.differential.pci import explained as pci

pytestmark = pytest.mark.system

PAGE = Path(__file__).resolve().parents[2] / "doc" / "source" / "allowed_differences.txt"
EXPLANATIONS = [item for module in (explained, hosts, nova, pci) for item in module.EXPLANATIONS]


@pytest.mark.parametrize("explanation", EXPLANATIONS, ids=lambda item: item.name)
def test_explanation_is_documented(explanation):
    words = " ".join(PAGE.read_text().replace("``", "").split())
    name = explanation.name.replace("``", "")
    assert name in words or name[0].upper() + name[1:] in words
    assert " ".join(explanation.reason.replace("``", "").split()) in words
