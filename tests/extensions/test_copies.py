# SPDX-License-Identifier: Apache-2.0
"""Fast tests of the core on copies of the package without an extension."""

import os
import shutil
import sys

import pytest

from tests.support.commands import run_captured
from tests.support.repository import EXTENSION_NAMES, IGNORED_COPY_PATTERNS, ROOT

pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(1800)]


@pytest.mark.parametrize("name", EXTENSION_NAMES)
def test_core_passes_its_fast_tests_without_an_extension(tmp_path, name):
    copy = tmp_path / "placement_sched"
    shutil.copytree(ROOT, copy, symlinks=True, ignore=IGNORED_COPY_PATTERNS)
    shutil.rmtree(copy / "placement_sched" / "extensions" / name)
    shutil.rmtree(copy / "tests" / "extensions")  # tests of extensions may use other extensions
    done = run_captured(
        [sys.executable, "-m", "pytest", "--lane", "fast", "--numprocesses", "2", "--quiet"],
        cwd=copy,
        # The copy takes precedence over the installed package.
        env={**os.environ, "PYTHONPATH": str(copy)},
        timeout=1500,
    )
    assert done.returncode == 0, done.stdout[-4000:]
