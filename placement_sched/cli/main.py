"""``placement-sched``: reads the command, runs it, and tells failure in one line."""

import argparse
import errno
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import version

from placement_sched.cli.arguments import Parser
from placement_sched.cli.sentences import one_line, sentence
from placement_sched.errors import Error, Invalid, NotFound

PROGRAM = "placement-sched"


@dataclass(frozen=True, slots=True)
class Group:
    """A module of commands, which is imported only when one of them is called.

    Its ``register(commands)`` adds them. ``summaries`` has the line of each in ``--help``: the same
    that the module gives, which ``tests/cli/test_starting.py`` compares.
    """

    module: str
    summaries: Mapping[str, str]


#: The command groups, in the order of ``--help``.
GROUPS = (
    Group(
        "placement_sched.cli.demo",
        {"demo": "watch requests being placed on a sample cloud of 300 hosts; nothing is needed"},
    ),
    Group("placement_sched.cli.serve", {"serve": "serve every API over HTTP"}),
    Group("placement_sched.cli.db", {"db": "create, upgrade and show the database schema"}),
    Group(
        "placement_sched.cli.select",
        {
            "select": "place a request and claim what it needs",
            "explain": "show how a request would be placed, stage by stage; claim nothing",
        },
    ),
    Group("placement_sched.cli.policy", {"policy": "look at policies, and let them take effect"}),
    Group("placement_sched.cli.aggregate", {"aggregate": "look at host aggregates"}),
    Group("placement_sched.cli.fleet", {"fleet": "describe a whole cloud in one readable file"}),
    Group(
        "placement_sched.cli.placement",
        {
            "placement": "keep placement in step with the cloud, as nova-manage placement does",
        },
    ),
    Group("placement_sched.cli.status", {"status": "tell whether this release can be run"}),
    Group(
        "placement_sched.cli.config",
        {"config": "show every option, and check a configuration"},
    ),
)

INTERRUPTED = 130  # 128 + SIGINT, as shells have it
BROKEN_PIPE = 141  # 128 + SIGPIPE

#: What the system says of a disk that takes no more.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that ``argv`` names and return its exit status."""
    arguments = argparse.Namespace(failure=1, wrong_input=None, debug=False)
    try:
        arguments = _arguments(sys.argv[1:] if argv is None else argv)
        done: int = arguments.run(arguments)
        sys.stdout.flush()
    except Error as error:
        return _fail(sentence(error), _status(error, arguments))
    except KeyboardInterrupt:
        # A shell starts its background jobs with SIGINT ignored, so that Ctrl-C ends only what is
        # in the foreground. Python leaves it so, and so do we: then this is never raised. (serve
        # has handlers of its own.)
        return _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        _drop_stdout()
        return BROKEN_PIPE
    except OSError as failure:
        if arguments.debug:
            traceback.print_exc()
        return _fail(_told_by_system(failure), arguments.failure)
    except Exception as failure:  # noqa: BLE001 - the last door: nobody is shown a traceback unasked
        if arguments.debug:
            traceback.print_exc()
        return _fail(
            f"unexpected {type(failure).__name__}: {one_line(failure)} "
            "(a defect; --debug shows where)",
            arguments.failure,
        )
    return done


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Return what ``argv`` says; leaves where it says what cannot be, and after help."""
    parser = make_parser(argv)
    try:
        arguments, unknown = parser.parse_known_args(argv)
    finally:
        # --help and --version print and leave.
        sys.stdout.flush()
    if unknown:
        # Only now is it known which command was meant, and how it leaves.
        parser.complaint = arguments.wrong_input or parser.complaint
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    return arguments


def make_parser(argv: Sequence[str]) -> Parser:
    """Return the parser of the command line ``argv``: of other commands it has only the names.

    To import them all would take most of the time that a short command takes.
    """
    parser = Parser(prog=PROGRAM, description="Decides where a virtual machine goes, and says why.")
    parser.add_argument(
        "--version", action="version", version=f"{PROGRAM} {version('placement_sched')}"
    )
    parser.add_argument("--debug", action="store_true", help=argparse.SUPPRESS)
    # A command whose status 1 means something else of its own sets another one.
    parser.set_defaults(failure=1, wrong_input=None, run=partial(_help, parser))
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    # No option before the command takes a value, so the first other word is its name.
    called = next((word for word in argv if not word.startswith("-")), None)
    for group in GROUPS:
        if called in group.summaries:
            import_module(group.module).register(commands)
            continue
        for name, summary in group.summaries.items():
            commands.add_parser(name, help=summary)
    return parser


def _help(parser: Parser, _arguments: argparse.Namespace) -> int:
    """Print the help where no command is given."""
    parser.print_help()
    return 0


def _status(error: Error, arguments: argparse.Namespace) -> int:
    """Return the status of a failure; some commands have one of its own for what they are given."""
    wrong_input = isinstance(error, Invalid | NotFound) and arguments.wrong_input is not None
    status: int = arguments.wrong_input if wrong_input else arguments.failure
    return status


def _fail(sentence: str, status: int) -> int:
    sys.stderr.write(f"{PROGRAM}: {sentence}\n")
    return status


def _told_by_system(failure: OSError) -> str:
    """Return what the operating system refused, and of what: a full disk under our output, say."""
    reason = failure.strerror or one_line(failure)
    # A file that cannot be written is named; what has no name is our output.
    of_output = failure.filename is None and failure.errno in _FULL
    try:
        # What could not be written is kept, unless it was more than the buffer, and refused again.
        sys.stdout.flush()
    except OSError:
        of_output = True
    if of_output:
        _drop_stdout()
        return f"standard output: {reason}"
    return reason if failure.filename is None else f"{failure.filename}: {reason}"


def _drop_stdout() -> None:
    """Let go of what nobody takes, as where whoever read our output went away (``| head``)."""
    # Python flushes stdout once more at exit, which would complain of the same.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
