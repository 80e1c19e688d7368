# SPDX-License-Identifier: Apache-2.0
"""Argument parser and arguments shared by several commands."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """An argument parser that reports an error in a single line on stderr."""

    #: Exit status for invalid arguments; a command may change it on its parser.
    complaint = 2

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # An abbreviation that is unique now would become ambiguous with the next option.
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(*args, **kwargs)

    def error(self, message: str) -> NoReturn:
        """Print the error with a hint at the help, and exit."""
        self.exit(self.complaint, f"{self.prog}: {message} (see {self.prog} --help)\n")


#: Type of the result of ``parser.add_subparsers()``.
Commands = Any


def add_command(
    commands: Commands,
    name: str,
    summary: str,
    run: Callable[[argparse.Namespace], int],
    *,
    epilog: str | None = None,
    of_nova: bool = False,
    **statuses: int,
) -> Parser:
    """Add a command that calls ``run`` and return its parser.

    With ``of_nova`` the command reads nova's configuration too, if no file is named.
    ``statuses`` are exit statuses of the command: ``failure``, and ``wrong_input`` for wrong input.
    """
    parser: Parser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--config-file",
        metavar="FILE",
        action="append",
        default=[],
        help="configuration file in INI format, followed by the *.conf files of the directory "
        "FILE.d; repeatable, later files override earlier files (default: the files that "
        "PLACEMENT_SCHED_CONFIG names, or /etc/placement/placement.conf and "
        "/etc/placement_sched/placement_sched.conf, if they exist)",
    )
    parser.add_argument(
        "--config-dir",
        dest="config_file",
        metavar="DIR",
        action=_Directory,
        default=[],
        help="directory of configuration files (*.conf), read in order of name; repeatable",
    )
    parser.set_defaults(run=run, of_nova=of_nova, **statuses)
    parser.complaint = statuses.get("wrong_input", Parser.complaint)
    return parser


class _Directory(argparse.Action):
    """Add the files of a directory to the files of ``--config-file``."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, *values: Any
    ) -> None:
        folder = Path(values[0])
        if not folder.is_dir():
            parser.error(f"there is no directory {folder}")
        files = map(str, sorted(folder.glob("[!.]*.conf")))
        setattr(namespace, self.dest, [*getattr(namespace, self.dest), *files])


def add_group(commands: Commands, name: str, summary: str) -> Commands:
    """Add a group of commands (``db sync``, ``db version``) and return its subparsers."""
    parser = commands.add_parser(
        name, help=summary, description=summary[0].upper() + summary[1:] + "."
    )
    return parser.add_subparsers(title="commands", metavar="COMMAND", required=True)


def add_format(parser: argparse.ArgumentParser) -> None:
    """Add ``--format``."""
    parser.add_argument(
        "--format",
        choices=("text", "json"),
        default="text",
        help="output format (default: %(default)s)",
    )


def add_html(parser: argparse.ArgumentParser) -> None:
    """Add ``--html``, for commands with a report."""
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="also write a report to this file, as a self-contained HTML page",
    )


#: Option that confirms that the instance records in this database are complete.
ALL_RECORDED = "--instances-are-all-recorded"


def add_all_recorded(parser: argparse.ArgumentParser) -> None:
    """Add the option that confirms that all instances are recorded."""
    parser.add_argument(
        ALL_RECORDED,
        action="store_true",
        help=(
            "trust the instance records: every instance of the cloud is recorded, and every "
            "recorded instance exists (not true while nova creates instances itself)"
        ),
    )
