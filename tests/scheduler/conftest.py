# SPDX-License-Identifier: Apache-2.0
"""What tests of plugins from elsewhere have in common."""

import pytest

from placement_sched.scheduler import plugins
from tests.conftest import default_settings


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Give a function that installs a package announcing these entry points."""

    def install(text):
        info = tmp_path / "acme-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(text)
        monkeypatch.syspath_prepend(tmp_path)
        forget()

    def forget():
        plugins._announcements.cache_clear()
        default_settings.cache_clear()

    yield install
    forget()
