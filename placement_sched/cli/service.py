# SPDX-License-Identifier: Apache-2.0
"""Log options and listening sockets of the commands that run as services.

The log options are oslo.log's. A socket is opened by the server or passed by systemd.
"""

import argparse
import os
import resource
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from oslo_config import cfg

from placement_sched.cli.database import read_command_settings
from placement_sched.config import logs
from placement_sched.config.conf import CONF
from placement_sched.config.settings import Settings
from placement_sched.errors import Error

#: Maximum number of concurrent connections of a worker. Others wait to be accepted.
CONNECTIONS = 1024
#: Maximum number of other open files of a worker: database, logs, metrics.
OTHER_FILES = 256
#: First descriptor that systemd passes (sd_listen_fds(3)).
_FIRST_DESCRIPTOR = 3


def add_log_options(parser: argparse.ArgumentParser) -> None:
    """Add the log options of OpenStack's services, such as ``--log-file``."""
    group = parser.add_argument_group(
        "log options", "These options override the configuration files and the environment."
    )

    def add(names: Sequence[str], option: cfg.Opt, switch: str, text: str) -> None:
        value: dict[str, Any] = {"metavar": _choose_metavar(option)}
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


def _choose_metavar(option: cfg.Opt) -> str:
    is_file = option.metavar == "PATH"
    return "FILE" if is_file else option.metavar or option.dest.rpartition("_")[2].upper()


def read_service_settings(arguments: argparse.Namespace) -> Settings:
    """Read the configuration of a service, with absolute paths of files."""
    apply_log_options(arguments)
    arguments.config_file = [str(Path(name).resolve()) for name in arguments.config_file]
    return read_command_settings(arguments)


def apply_log_options(arguments: argparse.Namespace) -> None:
    """Put log options into the environment, for workers and reloads."""
    for option in CONF.command_line_options:
        value = getattr(arguments, option.dest, None)
        if isinstance(value, str):
            os.environ[f"OS_DEFAULT__{option.dest.upper()}"] = value


def start_log(command: str) -> None:
    """Start the log of a service, and print the log file, if it is set."""
    logs.setup(CONF, f"placement-sched-{command}")
    logs.log_stacks_on_signal()
    if destination := logs.format_destination(CONF):
        sys.stdout.write(f"placement-sched {command} starts{destination}\n")
        sys.stdout.flush()


def take_inherited_socket() -> socket.socket | None:
    """Return the socket that systemd passed (sd_listen_fds(3)), or None.

    Raises :class:`Error` for several sockets, and for a socket that is no TCP port.
    """
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return None
    passed = os.environ.get("LISTEN_FDS", "0")
    for name in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"):  # not for the workers
        os.environ.pop(name, None)
    if passed == "0":
        return None
    if passed != "1":
        raise Error(f"systemd passed {passed} sockets: use a single ListenStream=")
    listener = socket.socket(fileno=_FIRST_DESCRIPTOR)
    listening = listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    if listener.family not in {socket.AF_INET, socket.AF_INET6} or not listening:
        raise Error("the socket that systemd passed does not listen on a TCP port")
    return listener


def raise_connection_limit() -> int:
    """Raise the limit of open files, and return the limit of connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    required = CONNECTIONS + OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= required:
        return CONNECTIONS
    soft = required if hard == resource.RLIM_INFINITY else min(hard, required)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(OTHER_FILES // 4, soft - OTHER_FILES)


def parse_port(text: str) -> int:
    """Parse the value of an option that takes a port."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text} is not a port (0 to 65535)")
    return int(text)


def find_free_port(host: str, port: int) -> int:
    """Return ``port`` (0: any), or raise :class:`Error` if it is in use.

    Otherwise two servers could share the port by SO_REUSEPORT.
    """
    address = resolve(host)[0]
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as failure:
            raise Error(f"cannot listen on {host}:{port}: {failure.strerror}") from None
        return int(probe.getsockname()[1])


def resolve(host: str) -> list[str]:
    """Resolve ``host`` to addresses, or raise :class:`Error`."""
    try:
        entries = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as failure:
        raise Error(f"cannot listen on {host}: {failure.strerror or failure}") from None
    return [str(entry[4][0]) for entry in entries]
