# SPDX-License-Identifier: Apache-2.0
"""Argument parser, and arguments that several commands share."""

import argparse
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, Self

from placement_sched.errors import Invalid
from placement_sched.model.extension import load_subcommands


class WrongArguments(Invalid):
    """Arguments contradict each other, or an argument is missing."""


@contextmanager
def rejected_arguments() -> Iterator[None]:
    """Raise the errors of values of arguments as :class:`WrongArguments`."""
    try:
        yield
    except Invalid as failure:
        raise WrongArguments(failure.detail) from None


class Parser(argparse.ArgumentParser):
    """Argument parser that reports an error in a single line on stderr."""

    #: Exit status for invalid arguments. A command may change it on its parser.
    usage_error_status = 2
    #: The subparsers of a group of commands.
    commands: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # An abbreviation that is unique now would become ambiguous with the next option.
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(*args, **kwargs)
        self.set_defaults(parser=self)

    def add_subparsers(self, **kwargs: Any) -> Any:
        """Add subparsers for commands, whose names an error suggests."""
        self.commands = super().add_subparsers(**kwargs)
        return self.commands

    def error(self, message: str) -> NoReturn:
        """Print the error with the command for help, and exit."""
        if unknown := _UNKNOWN_COMMAND.match(message):
            name, names = unknown[1], self.commands.choices
            message = f"unknown command {name!r}{_suggest(name, names)}"
        self.exit(self.usage_error_status, f"{self.prog}: {message} (see {self.prog} --help)\n")

    def add_examples(self, *examples: str) -> Self:
        """Add examples to the help: the arguments after the name of the command."""
        lines = [f"  {self.prog} {example}".rstrip() for example in examples]
        heading = f"example{'s'[: len(lines) > 1]}:"
        self.epilog = "\n".join([heading, *lines, "", self.epilog or ""]).rstrip()
        return self

    def reject_arguments(self, unknown: Sequence[str]) -> NoReturn:
        """Print the arguments that the command does not have, and exit."""
        suggestion, name = "", unknown[0].partition("=")[0]
        if name.startswith("--"):
            options = re.findall(r"--[\w-]+", self.format_help())
            suggestion = _suggest(name, options, prefix="--")
        elif _UUID.fullmatch(name):
            names: dict[str, str] = {}
            for option in re.findall(r"(--[\w-]+) UUID", self.format_help()):
                names.setdefault(option.replace("_", "-"), option)  # of two spellings the first
            suggestion = f" (a uuid needs an option: {', '.join(names.values())})" if names else ""
        self.error(f"unrecognized arguments: {' '.join(unknown)}{suggestion}")


_UUID = re.compile(r"(?i)[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}")
#: An error about a word in the place of a command.
_UNKNOWN_COMMAND = re.compile(r"argument COMMAND: invalid choice: '(.*?)' \(")


def _suggest(word: str, names: Iterable[str], prefix: str = "") -> str:
    # Imported only for an error: --help starts without it.
    model = import_module("placement_sched.model.names")
    stems = [name.removeprefix(prefix) for name in names]
    near = model.find_nearest(word.removeprefix(prefix), stems)
    suggestion: str = model.format_suggestion(prefix + stem for stem in near)
    return suggestion


class EmbeddedParser(Parser):
    """Parser that adds a command's arguments to an ``openstack`` command."""

    def __init__(self, target: argparse.ArgumentParser, commands: Any = None) -> None:
        super().__init__(prog=target.prog, add_help=False)
        self._group = commands
        self.add_argument = target.add_argument  # type: ignore[method-assign]
        self.add_argument_group = target.add_argument_group  # type: ignore[method-assign]
        self.add_mutually_exclusive_group = target.add_mutually_exclusive_group  # type: ignore[method-assign]
        self.set_defaults = target.set_defaults  # type: ignore[method-assign]

    def add_subparsers(self, **_options: Any) -> Any:
        """Return the subparsers of the group."""
        return self._group


#: Maximum number of seconds of an option: a day.
_MAX_SECONDS = 86_400
#: Type of the result of ``parser.add_subparsers()``.
Commands = Any
#: Type of the result of ``parser.add_argument_group()``.
ArgumentGroup = Any


def add_command(
    commands: Commands,
    name: str,
    summary: str,
    run: Callable[[argparse.Namespace], int],
    *,
    epilog: str = "",
    with_nova_conf: bool | None = False,
    **statuses: int,
) -> Parser:
    """Add a command that calls ``run``, and return its parser.

    ``with_nova_conf`` adds nova.conf to the default files. With None, there are no files.
    """
    parser: Parser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run, with_nova_conf=with_nova_conf, **statuses)
    parser.usage_error_status = statuses.get("wrong_input", Parser.usage_error_status)
    if with_nova_conf is not None and not isinstance(parser, EmbeddedParser):
        add_files(parser, with_nova_conf=with_nova_conf)
    return parser


def add_files(parser: Parser, *, with_nova_conf: bool, of_parent: bool = False) -> None:
    """Add the options that name configuration files.

    With ``of_parent`` the default is the files of the parent command.
    """
    default: Any = argparse.SUPPRESS if of_parent else []
    nova = ", /etc/nova/nova.conf" if with_nova_conf else ""
    parser.add_argument(
        "--config-file",
        metavar="FILE",
        action="append",
        default=default,
        help="configuration file in INI format, followed by the *.conf files of the directory "
        "FILE.d (repeatable: later files override earlier files, default: the files that "
        f"PLACEMENT_SCHED_CONFIG names, or /etc/placement/placement.conf{nova} and "
        "/etc/placement_sched/placement_sched.conf, if they exist)",
    )
    parser.add_argument(
        "--config-dir",
        dest="config_file",
        metavar="DIR",
        action=_Directory,
        default=default,
        help="directory of configuration files (*.conf), read in order of name (repeatable)",
    )


class _Directory(argparse.Action):
    """Add the files of a directory to the files of ``--config-file``."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, *values: Any
    ) -> None:
        folder = Path(values[0])
        if not folder.is_dir():
            parser.error(f"there is no directory {folder}")
        files = map(str, sorted(folder.glob("[!.]*.conf")))
        setattr(namespace, self.dest, [*getattr(namespace, self.dest, ()), *files])


def add_group(commands: Commands, name: str, summary: str) -> Commands:
    """Add a group of commands such as ``db``, and return its subparsers."""
    parser = commands.add_parser(
        name, help=summary, description=summary[0].upper() + summary[1:] + "."
    )
    return parser.add_subparsers(title="commands", metavar="COMMAND", required=True)


def add_subcommands(group: Commands, name: str) -> None:
    """Add the commands of extensions to a group of the core."""
    for extension, module in load_subcommands(name):
        existing = set(group.choices)
        module.register(group)
        for added in group.choices.keys() - existing:
            group.choices[added].set_defaults(extension=extension)


def parse_positive_number(text: str) -> int:
    """Parse the value of an option that takes a number of 1 or more."""
    if not re.fullmatch(r"[1-9][0-9]{0,8}", text):
        raise argparse.ArgumentTypeError(f"expected a number of 1 or more, not {text!r}")
    return int(text)


def parse_uuid(text: str) -> str:
    """Parse an option that takes a uuid, and return the canonical form."""
    # Imported only for such a value: --help starts without it.
    uuid: str | None = import_module("placement_sched.model.names").read_uuid(text)
    if uuid is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a uuid")
    return uuid


def parse_seconds(text: str) -> float:
    """Parse an option that takes a number of seconds, more than 0 up to a day."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds <= _MAX_SECONDS:
        raise argparse.ArgumentTypeError(
            f"expected a number of seconds up to {_MAX_SECONDS}, not {text!r}"
        )
    return seconds


def add_format(parser: argparse.ArgumentParser) -> None:
    """Add ``--format`` to a command that prints a text."""
    parser.add_argument(
        *("-f", "--format"),
        choices=("text", "json", "yaml"),
        default="text",
        help="output format (default: %(default)s)",
    )


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the output options of the ``openstack`` command, such as ``-f``."""
    if isinstance(parser, EmbeddedParser):
        return
    output = parser.add_argument_group("output")
    output.add_argument(
        *("-f", "--format"),
        choices=("table", "json", "yaml", "csv", "value"),
        default="table",
        help="output format (default: %(default)s)",
    )
    column: dict[str, Any] = {"action": "append", "default": [], "metavar": "COLUMN"}
    output.add_argument("-c", "--column", help="print only this column (repeatable)", **column)
    output.add_argument("--sort-column", help="sort by this column (repeatable)", **column)


def add_verbose(parser: argparse.ArgumentParser) -> None:
    """Add ``--verbose`` to a command that prints the stages of a request."""
    parser.set_defaults(verbose=False)
    if not isinstance(parser, EmbeddedParser):
        words = "also print the query for allocation candidates"
        parser.add_argument("--verbose", action="store_true", help=words)


def add_html(parser: argparse.ArgumentParser) -> None:
    """Add ``--html`` to a command that can write a report."""
    words = "also write a report to this file, as a self-contained HTML page"
    parser.add_argument("--html", type=Path, metavar="FILE", help=words)


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
