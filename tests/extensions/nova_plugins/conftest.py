# SPDX-License-Identifier: Apache-2.0
"""The shim during a test, and the plugins that need it."""

import builtins
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from oslo_config import cfg

from placement_sched.extensions.nova_plugins import finder
from placement_sched.model import document

THIRD_PARTY_PLUGIN_FOLDER = Path(__file__).with_name("third_party")


@pytest.fixture(autouse=True)
def uninstalled_nova_shim(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo the installation of the nova shim, which lasts for a process."""
    monkeypatch.setattr(cfg, "CONF", cfg.CONF)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.setattr(document, "_build_error", document._build_error)


@pytest.fixture
def nova_shim(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make the modules of nova importable, and the plugins of ``third_party``."""
    monkeypatch.syspath_prepend(str(THIRD_PARTY_PLUGIN_FOLDER))
    before = set(sys.modules)
    assert finder.install()
    yield
    vars(builtins).pop("_", None)
    plugins = {path.stem for path in THIRD_PARTY_PLUGIN_FOLDER.glob("*.py")}
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in {"nova", "oslo", *plugins}:
            del sys.modules[name]
