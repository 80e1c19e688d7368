# SPDX-License-Identifier: Apache-2.0
"""Older names of options of ``[api]``."""

from placement_sched.config.conf import read_files
from placement_sched.config.settings import Settings, is_explicit
from placement_sched.scheduler.plugins import make_full_conf


def test_auth_strategy_can_be_set_by_its_oldest_name(tmp_path):
    file = tmp_path / "placement.conf"
    file.write_text("[DEFAULT]\nauth_strategy = keystone\n")
    conf = read_files(make_full_conf(), [str(file)])
    assert Settings.from_conf(conf).api.auth_strategy == "keystone"
    assert is_explicit(conf, "api", "auth_strategy")
