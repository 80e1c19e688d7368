"""The parser, and the arguments that several commands share."""

import argparse
from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """A parser whose complaint is one line on stderr."""

    #: The exit status of a complaint; a command that must have another sets it on its parser.
    complaint = 2

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # A prefix that is unique today would mean something else once an option is added.
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(*args, **kwargs)

    def error(self, message: str) -> NoReturn:
        """Tell what is wrong with the arguments and where help is, and leave."""
        self.exit(self.complaint, f"{self.prog}: {message} (see {self.prog} --help)\n")


#: What a command group adds itself to: ``parser.add_subparsers()``.
Commands = Any


def add_command(
    commands: Commands, name: str, *, summary: str, epilog: str | None = None
) -> argparse.ArgumentParser:
    """Add a command that reads the configuration, and return its parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
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
        help="configuration file in INI form; repeatable, a later one wins",
    )
    return parser


def add_group(commands: Commands, name: str, *, summary: str) -> Commands:
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
        help="how the result is printed (default: %(default)s)",
    )


#: How an operator says that the records of instances in this database are complete.
ALL_RECORDED = "--instances-are-all-recorded"


def add_all_recorded(parser: argparse.ArgumentParser) -> None:
    """Add the flag by which an operator vouches for the recorded instances."""
    parser.add_argument(
        ALL_RECORDED,
        action="store_true",
        help=(
            "rely on the instances recorded here: every instance of the cloud is recorded, and "
            "every recorded one exists (never true while nova makes instances of its own)"
        ),
    )


def set_wrong_input(parser: argparse.ArgumentParser, status: int) -> None:
    """Let a command leave with ``status`` where it is given what cannot be."""
    if isinstance(parser, Parser):
        parser.complaint = status
    parser.set_defaults(wrong_input=status)
