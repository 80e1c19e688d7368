# SPDX-License-Identifier: Apache-2.0
"""The guide's tables of older nova releases."""

import sys
from importlib import import_module
from types import ModuleType

import pytest

from tests.support.repository import ROOT

GUIDE_FOLDER = ROOT / "doc" / "source"


@pytest.fixture(scope="module")
def era_table() -> ModuleType:
    sys.path.insert(0, str(GUIDE_FOLDER / "_ext"))
    try:
        return import_module("eras")
    finally:
        sys.path.pop(0)
