# SPDX-License-Identifier: Apache-2.0
"""Entry point ``placement-sched``: runs commands and reports failures."""

import argparse
import errno
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.metadata import version

from placement_sched.cli.arguments import Parser, WrongArguments, add_command
from placement_sched.errors import (
    Error,
    Invalid,
    NotFound,
    NoValidHost,
    escape_unprintable,
    format_error,
    format_one_line,
)
from placement_sched.model.extension import find_extensions

PROGRAM = "placement-sched"
#: Modules of the core's commands in the order of ``--help``, with the summaries of their commands.
#: The commands of extensions follow. A module is imported only if a command of it is called. Its
#: ``register(commands)`` adds the commands with the same summaries, which
#: ``tests/cli/test_command_imports.py`` compares.
GROUPS = {
    "placement_sched.cli.serve": {"serve": "serve every API over HTTP"},
    "placement_sched.cli.nova_scheduler": {
        "nova-scheduler": "serve nova's scheduler RPC in place of nova-scheduler"
    },
    "placement_sched.cli.db": {"db": "create, upgrade and show the database schema"},
    "placement_sched.cli.scheduler.select": {
        "select": "select hosts for a request and claim its resources",
        "explain": "show how a request would be placed, stage by stage, without a claim",
    },
    "placement_sched.cli.scheduler.decisions": {
        "decision": "list, show, replay, watch and purge recorded decisions"
    },
    "placement_sched.cli.scheduler.hosts": {"host": "list and show hosts"},
    "placement_sched.cli.scheduler.policy": {"policy": "show and apply scheduling policies"},
    "placement_sched.cli.aggregate": {"aggregate": "check host aggregates"},
    "placement_sched.cli.placement": {
        "placement": "synchronise, audit and heal placement, as nova-manage placement does"
    },
    "placement_sched.cli.nova": {"nova": "read nova's databases, and take over its cloud"},
    "placement_sched.cli.status": {"status": "check upgrade readiness"},
    "placement_sched.cli.config": {"config": "show all options and validate a configuration"},
    "placement_sched.cli.completion": {
        "completion": "print a completion script for bash, zsh or fish"
    },
}

#: Earlier spellings of commands, which stay valid, with the current spelling.
EARLIER = {
    ("hosts",): ("host",),
    ("decisions",): ("decision",),
    ("adopt", "nova"): ("nova", "adopt"),
    ("adopt",): ("nova",),
    ("nova", "shadow", "report"): ("nova-shadow", "report"),
}
_HELP = "show the help of a command"
_EPILOG = "Earlier spellings stay valid: {}. Commands with _ may also be written with -."

INTERRUPTED = 130  # 128 + SIGINT, as in shells
BROKEN_PIPE = 141  # 128 + SIGPIPE
#: Error numbers of a full disk.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
#: Extra of this package that installs an optional module, by module.
_EXTRAS = {"granian": "server"}


def list_groups() -> list[tuple[str, str, Mapping[str, str]]]:
    """Return extension ("": core), module and summaries of all commands."""
    groups: list[tuple[str, str, Mapping[str, str]]]
    groups = [("", module, summaries) for module, summaries in GROUPS.items()]
    for name, extension in find_extensions().items():
        groups += [(name, module, summaries) for module, summaries in extension.commands.items()]
    return groups


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that ``argv`` names, and return the exit status."""
    arguments = argparse.Namespace(failure=1, wrong_input=None, no_host=None, debug=False)
    try:
        arguments = parse_arguments(sys.argv[1:] if argv is None else argv)
        status_code: int = arguments.run(arguments)
        sys.stdout.flush()
    except Error as error:
        # Some commands have separate statuses for invalid input and for a request without a host.
        status = arguments.wrong_input if isinstance(error, Invalid | NotFound) else None
        if isinstance(error, WrongArguments) and status is None:
            status = Parser.usage_error_status
        if isinstance(error, NoValidHost):
            status = arguments.no_host
        return _fail(format_error(error), arguments.failure if status is None else status)
    except KeyboardInterrupt:
        # Not raised in a background job of a shell, which ignores SIGINT (serve has its handlers).
        return _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        _drop_stdout()
        return BROKEN_PIPE
    except Exception as failure:  # noqa: BLE001 - the outermost handler: tracebacks only with --debug
        if arguments.debug:
            traceback.print_exc()
        if isinstance(failure, OSError):
            return _fail(_describe_system_error(failure), arguments.failure)
        if isinstance(failure, ModuleNotFoundError) and failure.name in _EXTRAS:
            package = f"pip install 'placement-sched[{_EXTRAS[failure.name]}]'"
            return _fail(f"{failure.name} is not installed: {package}", arguments.failure)
        defect = f"unexpected {type(failure).__name__}: {format_one_line(failure)}"
        return _fail(f"{defect} (a defect: --debug shows the traceback)", arguments.failure)
    return status_code


def main_of_status() -> int:
    """Run the command ``status`` for the program ``placement-sched-status``."""
    return main(["status", *sys.argv[1:]])


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Parse ``argv``. Exit after invalid arguments or ``--help``."""
    argv = convert_spelling(argv)
    parser = make_parser(argv)
    try:
        arguments, unknown = parser.parse_known_args(argv)
    finally:
        # --help and --version print and exit.
        sys.stdout.flush()
    if unknown:
        # The exit status and the options depend on the command, which is parsed by now.
        arguments.parser.reject_arguments(unknown)
    if getattr(arguments, "config_file", None) == []:
        # Importing the configuration takes longer than --version.
        default_files = import_module("placement_sched.config.sources")
        arguments.config_file = default_files.find_files(with_nova_conf=arguments.with_nova_conf)
        arguments.is_default_config = True
    return arguments


def convert_spelling(argv: Sequence[str]) -> list[str]:
    """Return ``argv`` with the current spelling of its command."""
    words = list(argv)
    # No option before the command takes a value, so the first other word is its name.
    first = next((n for n, word in enumerate(words) if not word.startswith("-")), len(words))
    options, words = words[:first], words[first:]
    if words[:1] == ["help"] and words[1:2] != ["--help"]:
        words = [*words[1:], "--help"]
    if words[:1] == ["placement"] and len(words) > 1 and not words[1].startswith("-"):
        words[1] = words[1].replace("-", "_")
    for earlier, current in EARLIER.items():
        if tuple(words[: len(earlier)]) == earlier:
            words[: len(earlier)] = current
            break
    return options + words


def make_parser(argv: Sequence[str], *, with_all_commands: bool = False) -> Parser:
    """Build the parser for ``argv``. Importing all commands would take long."""
    parser = Parser(
        prog=PROGRAM,
        description="Selects hosts for virtual machines and explains the choice.",
        epilog=_EPILOG.format(", ".join(map(" ".join, EARLIER))),
    )
    parser.add_argument(
        "--version", action="version", version=f"{PROGRAM} {version('placement_sched')}"
    )
    parser.add_argument("--debug", action="store_true", help=argparse.SUPPRESS)
    # A command that uses status 1 for a result sets another status for failures.
    parser.set_defaults(failure=1, wrong_input=None, no_host=None, run=partial(_print_help, parser))
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    command_name = next((word for word in argv if not word.startswith("-")), None)
    for extension, module, summaries in list_groups():
        if with_all_commands or command_name in summaries:
            try:
                import_module(module).register(commands)
                for name in summaries:
                    commands.choices[name].set_defaults(extension=extension)
                continue
            except ModuleNotFoundError as missing:
                if not with_all_commands or missing.name not in _EXTRAS:
                    raise
        for name, summary in summaries.items():
            commands.add_parser(name, help=summary)
    # Only for the help: convert_spelling replaces help COMMAND by COMMAND --help.
    command = add_command(
        commands, "help", _HELP, partial(_print_help, parser), with_nova_conf=None
    )
    command.add_examples("host list")
    command.add_argument("command", metavar="COMMAND", nargs="*", help="words of the command")
    return parser


def _print_help(parser: Parser, _arguments: argparse.Namespace) -> int:
    parser.print_help()
    return 0


def _fail(sentence: str, status: int) -> int:
    # The sentence may contain any text of an argument or a response.
    sys.stderr.write(f"{PROGRAM}: {escape_unprintable(sentence)}\n")
    return status


def _describe_system_error(failure: OSError) -> str:
    reason = failure.strerror or format_one_line(failure)
    # An error of a file has a file name. An error without a name is about the standard output.
    of_output = failure.filename is None and failure.errno in _FULL
    try:
        # Output that was not written may still be in the buffer, so that this flush fails again.
        sys.stdout.flush()
    except OSError:
        of_output = True
    if of_output:
        _drop_stdout()
        return f"standard output: {reason}"
    return reason if failure.filename is None else f"{failure.filename}: {reason}"


def _drop_stdout() -> None:
    # Python flushes stdout again at exit, which would fail again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
