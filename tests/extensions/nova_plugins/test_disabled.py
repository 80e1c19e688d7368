# SPDX-License-Identifier: Apache-2.0
"""Plugins cannot import nova without the extension."""

import sys

import pytest

from placement_sched.app import check_parts
from placement_sched.cli.main import main
from placement_sched.errors import ConfigurationError
from placement_sched.extensions.nova_plugins import finder
from placement_sched.model import extension
from tests.support.states import read_settings_text

DISABLED_TEXT = "[DEFAULT]\ndisabled_extensions = nova_plugins\n"
NOVA_SHIM_TEXT = "[filter_scheduler]\nnova_shim = true\n"
FAILING_FILTER_TEXT = """
from placement_sched.scheduler.filters import BaseHostFilter


class FailingFilter(BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        return host_state.none
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [(DISABLED_TEXT, "disabled by [DEFAULT] disabled_extensions"), ("", "not installed")],
)
def test_nova_shim_without_the_extension_is_an_error(monkeypatch, tmp_path, capsys, text, reason):
    if not text:
        monkeypatch.setattr(extension, "find_extensions", dict)
    problem = f"[filter_scheduler] nova_shim needs the extension nova_plugins, which is {reason}"
    with pytest.raises(ConfigurationError) as error:
        read_settings_text(tmp_path, text + NOVA_SHIM_TEXT)
    assert error.value.detail == problem
    assert not finder.is_installed()
    assert main(["config", "validate", "--config-file", str(tmp_path / "nova.conf")]) == 1
    assert f"error: {problem}" in capsys.readouterr().out.splitlines()


def test_plugin_command_of_the_disabled_extension_is_an_error(tmp_path, capsys):
    (tmp_path / "own.conf").write_text(DISABLED_TEXT)
    assert main(["plugin", "list", "--config-file", str(tmp_path / "own.conf")]) == 1
    assert "the extension nova_plugins is disabled by" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "count"), [("", 1), (DISABLED_TEXT, 0)])
def test_enabled_plugins_are_checked_unless_the_extension_is_disabled(
    monkeypatch, tmp_path, text, count
):
    (tmp_path / "acme_failing.py").write_text(FAILING_FILTER_TEXT)
    monkeypatch.syspath_prepend(tmp_path)
    path = "acme_failing.FailingFilter"
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", "sqlite://")
    text += f"[filter_scheduler]\navailable_filters = {path}\nenabled_filters = FailingFilter\n"
    assert len(check_parts(read_settings_text(tmp_path, text))) == count
    sys.modules.pop("acme_failing")
