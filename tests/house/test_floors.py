"""Each floor imports only those below it; the contracts stand in setup.cfg."""

import configparser
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.tree import PACKAGE, ROOT

pytestmark = pytest.mark.slow


def test_import_contracts_hold():
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stdout


def test_every_module_of_the_top_stands_on_a_floor():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    floors = set(setup["importlinter:contract:floors"]["layers"].split())
    top = {path.stem for path in PACKAGE.glob("*.py")} | {
        path.parent.name for path in PACKAGE.glob("*/__init__.py")
    }
    assert top - {"__init__"} == floors


def test_no_contract_is_ignored():
    assert "ignore_imports" not in (ROOT / "setup.cfg").read_text()
