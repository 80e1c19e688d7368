# SPDX-License-Identifier: Apache-2.0
"""oslo.log's options on the command line."""

import argparse
import os
import signal

import pytest
from oslo_log import _options

from placement_sched.cli.main import make_parser
from placement_sched.cli.service import add_log_options, apply_log_options
from placement_sched.config.conf import create_conf, read_files
from tests.support.servers import wait_until

LOG_OPTION_NAMES = [option.name for option in _options.common_cli_opts + _options.logging_cli_opts]


@pytest.fixture
def read_log_options(tmp_path, monkeypatch):
    """Return a function that applies a command line and a file, and returns the options."""
    for name in LOG_OPTION_NAMES:
        # Setting the variable here makes monkeypatch remove it after the test.
        variable = f"OS_DEFAULT__{name.replace('-', '_').upper()}"
        monkeypatch.setenv(variable, "")
        monkeypatch.delenv(variable)

    def parse_and_read_conf(*words: str, lines: str = ""):
        file = tmp_path / "a.conf"
        file.write_text(f"[DEFAULT]\n{lines}")
        parser = argparse.ArgumentParser()
        add_log_options(parser)
        apply_log_options(parser.parse_args(words))
        return read_files(create_conf(), [str(file)])

    return parse_and_read_conf


@pytest.mark.parametrize("command", ["serve", "nova-scheduler", "nova-shadow"])
def test_help_of_each_service_lists_the_log_options_of_oslo_log(command, capsys):
    with pytest.raises(SystemExit):
        make_parser([command]).parse_args([command, "--help"])
    text = capsys.readouterr().out
    assert [name for name in LOG_OPTION_NAMES if f"--{name}" not in text] == []
    assert "%(" not in text.replace("%(asctime)s", "")


def test_log_option_of_the_command_overrides_file_and_environment(read_log_options, monkeypatch):
    lines = "log_file = of_file.log\ndebug = false\nuse_syslog = true\nlog_dir = /var/log/nova\n"
    monkeypatch.setenv("OS_DEFAULT__LOG_FILE", "of_environment.log")
    conf = read_log_options("-d", "--log-file", "own.log", "--nouse-syslog", lines=lines)
    assert (conf.debug, conf.log_file, conf.use_syslog) == (True, "own.log", False)
    assert conf.log_dir == "/var/log/nova"


def test_omitted_log_options_keep_the_values_of_the_file(read_log_options):
    conf = read_log_options(lines="debug = true\nlog_file = of_file.log\n")
    assert (conf.debug, conf.log_file) == (True, "of_file.log")


def test_deprecated_log_option_names_are_accepted(read_log_options):
    conf = read_log_options("--logfile", "own.log", "--logdir=logs", "--log-config", "logging.ini")
    assert (conf.log_file, conf.log_dir) == ("own.log", "logs")
    assert conf.log_config_append == "logging.ini"


def test_debug_option_before_the_command_does_not_set_the_log_level(read_log_options):
    apply_log_options(argparse.Namespace(debug=True))
    assert "OS_DEFAULT__DEBUG" not in os.environ
    assert read_log_options().debug is False


@pytest.mark.slow
def test_reload_keeps_log_options_of_the_command_line(serve, tmp_path):
    file = tmp_path / "a.conf"
    file.write_text("[DEFAULT]\nlog_file = of_file.log\n")
    server = serve("--config-file", str(file), "--log-file", "own.log", "--debug")
    log = tmp_path / "own.log"
    assert wait_until(lambda: " DEBUG " in log.read_text())
    file.write_text("[DEFAULT]\nlog_file = of_file.log\n[scheduler]\nmax_attempts = 4\n")
    server.process.send_signal(signal.SIGHUP)
    assert wait_until(lambda: "configuration read again" in log.read_text())
    assert "has changed: restart" not in log.read_text()
    assert not (tmp_path / "of_file.log").exists()
