# SPDX-License-Identifier: Apache-2.0
"""oslo.log's command-line options, for the commands that run as services."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from oslo_config import cfg

from placement_sched.config.conf import CONF
from placement_sched.config.settings import Settings
from placement_sched.scheduler.plugins import read_settings


def add_log_options(parser: argparse.ArgumentParser) -> None:
    """Add the log options of OpenStack's services, such as ``--log-file``.

    Older names of an option, and ``--no<name>`` for a switch, are accepted but not listed.
    """
    group = parser.add_argument_group(
        "log options", "These options override the configuration files and the environment."
    )

    def add(names: Sequence[str], option: cfg.Opt, switch: str, text: str) -> None:
        value: dict[str, Any] = {"metavar": _metavar(option)}
        if switch:
            value = {"action": "store_const", "const": switch}
        group.add_argument(*names, dest=option.dest, default=argparse.SUPPRESS, help=text, **value)

    for option in CONF.command_line_options:
        switch = "true" if isinstance(option, cfg.BoolOpt) else ""
        text = (option.help or "").split(". ")[0].removeprefix("(Optional) ").removesuffix(".")
        short = [f"-{option.short}"] if option.short else []
        add([*short, f"--{option.name}"], option, switch, f"{text} ([DEFAULT] {option.dest})")
        for old in option.deprecated_opts:
            add([f"--{old.name}"], option, switch, argparse.SUPPRESS)
        if switch:
            add([f"--no{option.name}"], option, "false", argparse.SUPPRESS)


def _metavar(option: cfg.Opt) -> str:
    is_file = option.metavar == "PATH"
    return "FILE" if is_file else option.metavar or option.dest.rpartition("_")[2].upper()


def read_service_settings(arguments: argparse.Namespace) -> Settings:
    """Apply a service's log options, and read the configuration from absolute paths.

    A reload reads the same files, whatever the working directory is then.
    """
    apply_log_options(arguments)
    return read_settings([str(Path(name).resolve()) for name in arguments.config_file])


def apply_log_options(arguments: argparse.Namespace) -> None:
    """Set environment variables so that log options override the configuration files.

    The environment also applies to worker processes and to a reload of the files.
    """
    for option in CONF.command_line_options:
        value = getattr(arguments, option.dest, None)
        if isinstance(value, str):
            os.environ[f"OS_DEFAULT__{option.dest.upper()}"] = value
