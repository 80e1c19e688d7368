"""The parser, and the arguments that several commands share."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """A parser that reports an error in one line on stderr."""

    #: The exit status for wrong arguments; a command may set another one on its parser.
    complaint = 2

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # A prefix that is unique today would mean something else once an option is added.
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(*args, **kwargs)

    def error(self, message: str) -> NoReturn:
        """Print what is wrong with the arguments and where help is, and exit."""
        self.exit(self.complaint, f"{self.prog}: {message} (see {self.prog} --help)\n")


#: What a command group adds itself to: ``parser.add_subparsers()``.
Commands = Any


def add_command(
    commands: Commands,
    name: str,
    summary: str,
    run: Callable[[argparse.Namespace], int],
    *,
    epilog: str | None = None,
    **statuses: int,
) -> Parser:
    """Add a command that does ``run``, with exit ``statuses`` of its own; return its parser."""
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
        help="configuration file in INI format, and after it the *.conf files of the directory "
        "FILE.d; repeatable, later files override earlier ones",
    )
    parser.add_argument(
        "--config-dir",
        dest="config_file",
        metavar="DIR",
        action=_Directory,
        default=[],
        help="directory of configuration files *.conf, read in order of their names; repeatable",
    )
    parser.set_defaults(run=run, **statuses)
    parser.complaint = statuses.get("wrong_input", Parser.complaint)
    return parser


class _Directory(argparse.Action):
    """Adds the files of a directory to those that ``--config-file`` names."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, *given: Any
    ) -> None:
        folder = Path(given[0])
        if not folder.is_dir():
            parser.error(f"there is no directory {folder}")
        files = map(str, sorted(folder.glob("[!.]*.conf")))
        setattr(namespace, self.dest, [*getattr(namespace, self.dest), *files])


def add_group(commands: Commands, name: str, summary: str) -> Commands:
    """Add a group of commands (``db sync``, ``db version``) and return what they are added to."""
    parser = commands.add_parser(
        name, help=summary, description=summary[0].upper() + summary[1:] + "."
    )
    return parser.add_subparsers(title="commands", metavar="COMMAND", required=True)


def add_format(parser: argparse.ArgumentParser) -> None:
    """Add ``--format``, for commands that print data."""
    parser.add_argument(
        "--format",
        choices=("text", "json"),
        default="text",
        help="output format (default: %(default)s)",
    )


def add_html(parser: argparse.ArgumentParser) -> None:
    """Add ``--html``, for commands whose answer can be handed on as a report."""
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="also write a report to this file: one HTML page that needs no other file",
    )


#: How an operator says that the records of instances in this database are complete.
ALL_RECORDED = "--instances-are-all-recorded"


def add_all_recorded(parser: argparse.ArgumentParser) -> None:
    """Add the flag by which an operator confirms that all instances are recorded."""
    parser.add_argument(
        ALL_RECORDED,
        action="store_true",
        help=(
            "rely on the recorded instances: every instance of the cloud is recorded, and "
            "every recorded one exists (not true while nova creates instances itself)"
        ),
    )
