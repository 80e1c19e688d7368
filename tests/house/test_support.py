# SPDX-License-Identifier: Apache-2.0
"""``tests/support`` is small, documented and shared by several modules."""

import re

import pytest

import tests.support
from tests.support.repository import ROOT, read_importers

SUPPORT_FOLDER = ROOT / "tests" / "support"
#: Number of lines of the folder. Lower it if the folder has become smaller, never raise it.
MAX_SUPPORT_LINES = 3450
#: The number may exceed the lines by this much.
MAX_UNUSED_LINES = 40
DOCUMENTED_NAMES = re.findall(r"``(\w+)``", tests.support.__doc__)


def list_support_modules():
    return sorted(path for path in SUPPORT_FOLDER.glob("*.py") if path.stem != "__init__")


@pytest.mark.slow
def test_support_modules_have_several_importers():
    importers = read_importers(ROOT / "tests", ROOT / "bench")
    single = [path.name for path in list_support_modules() if len(importers[path]) < 2]
    assert single == [], "move the module to its importer"


def test_support_does_not_grow():
    lines = sum(len(path.read_text().splitlines()) for path in SUPPORT_FOLDER.glob("*.py"))
    assert MAX_SUPPORT_LINES - MAX_UNUSED_LINES <= lines <= MAX_SUPPORT_LINES


def test_docstring_lists_each_module_and_each_common_fixture():
    names = {path.stem for path in list_support_modules()}
    conftest = (ROOT / "tests" / "conftest.py").read_text()
    names |= set(re.findall(r"@pytest\.fixture.*\ndef (\w+)", conftest))
    assert names - set(DOCUMENTED_NAMES) == set()
    modules = tests.support.__doc__.partition("Modules of this folder:")[2]
    assert re.findall(r"^- ``(\w+)``: ", modules, re.MULTILINE) == [
        path.stem for path in list_support_modules()
    ]
