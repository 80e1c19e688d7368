# SPDX-License-Identifier: Apache-2.0
"""Each layer imports only the layers below it, as the contracts in setup.cfg require."""

import configparser
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.repository import PACKAGE, ROOT

pytestmark = pytest.mark.slow


def test_import_contracts_hold():
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stdout


def test_every_top_module_is_a_layer():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    layers = set(setup["importlinter:contract:layers"]["layers"].split())
    top = {path.stem for path in PACKAGE.glob("*.py")} | {
        path.parent.name for path in PACKAGE.glob("*/__init__.py")
    }
    assert top - {"__init__"} == layers


def test_contracts_have_no_exceptions():
    assert "ignore_imports" not in (ROOT / "setup.cfg").read_text()
