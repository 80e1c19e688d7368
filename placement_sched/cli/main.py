"""``placement-sched``: reads the command, runs it, and reports a failure in one line."""

import argparse
import errno
import os
import sys
import traceback
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from placement_sched.cli.arguments import Parser
from placement_sched.errors import Error, Invalid, NotFound, escaped, one_line, sentence

PROGRAM = "placement-sched"


#: The modules of commands in the order of ``--help``, each with the summaries of its commands.
#: A module is imported only when one of them is called. Its ``register(commands)`` adds them, with
#: the same summaries, which ``tests/cli/test_starting.py`` compares.
GROUPS = {
    "placement_sched.cli.demo": {
        "demo": "place requests on a sample cloud of 300 hosts (needs no configuration)"
    },
    "placement_sched.cli.serve": {"serve": "serve every API over HTTP"},
    "placement_sched.cli.nova_scheduler": {
        "nova-scheduler": "answer nova's scheduler RPC, in nova-scheduler's place"
    },
    "placement_sched.cli.nova_shadow": {
        "nova-shadow": "evaluate nova's requests beside nova-scheduler and compare; claim nothing"
    },
    "placement_sched.cli.db": {"db": "create, upgrade and show the database schema"},
    "placement_sched.cli.scheduler.select": {
        "select": "select hosts for a request and claim its resources",
        "explain": "show how a request would be placed, stage by stage; claim nothing",
    },
    "placement_sched.cli.scheduler.plan": {
        "plan": "show the effect of changes to the cloud, and which instances would move where"
    },
    "placement_sched.cli.scheduler.decisions": {
        "decisions": "list, show, replay and purge recorded decisions"
    },
    "placement_sched.cli.scheduler.hosts": {"hosts": "list hosts, or show one in detail"},
    "placement_sched.cli.scheduler.rebalance": {
        "rebalance": "advise on moves that make room, empty hosts or even out their load"
    },
    "placement_sched.cli.scheduler.capacity": {
        "capacity": "count how many more instances of a flavor fit"
    },
    "placement_sched.cli.scheduler.policy": {"policy": "show and apply scheduling policies"},
    "placement_sched.cli.aggregate": {"aggregate": "check host aggregates"},
    "placement_sched.cli.fleet": {"fleet": "describe a whole cloud in one readable file"},
    "placement_sched.cli.placement": {
        "placement": "synchronise, audit and heal placement, as nova-manage placement does"
    },
    "placement_sched.cli.nova": {
        "adopt": "take over the cloud of an existing nova",
        "nova": "read nova's databases, and compare with nova's scheduler",
    },
    "placement_sched.cli.status": {"status": "check upgrade readiness"},
    "placement_sched.cli.config": {"config": "show every option, and check a configuration"},
    "placement_sched.cli.completion": {
        "completion": "print what bash, zsh or fish reads to complete commands"
    },
}

INTERRUPTED = 130  # 128 + SIGINT, as shells have it
BROKEN_PIPE = 141  # 128 + SIGPIPE
#: The error numbers of a full disk.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that ``argv`` names and return its exit status."""
    arguments = argparse.Namespace(failure=1, wrong_input=None, debug=False)
    try:
        arguments = _arguments(sys.argv[1:] if argv is None else argv)
        done: int = arguments.run(arguments)
        sys.stdout.flush()
    except Error as error:
        # Some commands have a status of their own for what they are given.
        given = arguments.wrong_input if isinstance(error, Invalid | NotFound) else None
        return _fail(sentence(error), arguments.failure if given is None else given)
    except KeyboardInterrupt:
        # A shell starts its background jobs with SIGINT ignored, so that Ctrl-C ends only what is
        # in the foreground. Python leaves it so, and so do we: then this is never raised. (serve
        # has handlers of its own.)
        return _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        _drop_stdout()
        return BROKEN_PIPE
    except Exception as failure:  # noqa: BLE001 - the outermost handler: tracebacks only with --debug
        if arguments.debug:
            traceback.print_exc()
        if isinstance(failure, OSError):
            return _fail(_system_error(failure), arguments.failure)
        defect = f"unexpected {type(failure).__name__}: {one_line(failure)}"
        return _fail(f"{defect} (a defect; --debug shows where)", arguments.failure)
    return done


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Return the parsed ``argv``; exits for wrong arguments and after help."""
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


def make_parser(argv: Sequence[str], *, whole: bool = False) -> Parser:
    """Return the parser of the command line ``argv``: of other commands it has only the names.

    To import them all would take most of the time that a short command takes; with ``whole`` it
    has all of them.
    """
    parser = Parser(prog=PROGRAM, description="Decides where a virtual machine goes, and says why.")
    parser.add_argument(
        "--version", action="version", version=f"{PROGRAM} {version('placement_sched')}"
    )
    parser.add_argument("--debug", action="store_true", help=argparse.SUPPRESS)
    # A command whose status 1 has another meaning sets another one.
    parser.set_defaults(failure=1, wrong_input=None, run=partial(_help, parser))
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    # No option before the command takes a value, so the first other word is its name.
    called = next((word for word in argv if not word.startswith("-")), None)
    for module, summaries in GROUPS.items():
        if whole or called in summaries:
            import_module(module).register(commands)
            continue
        for name, summary in summaries.items():
            commands.add_parser(name, help=summary)
    return parser


def _help(parser: Parser, _arguments: argparse.Namespace) -> int:
    parser.print_help()
    return 0


def _fail(sentence: str, status: int) -> int:
    # It may repeat an argument or an answer, which may be any text.
    sys.stderr.write(f"{PROGRAM}: {escaped(sentence)}\n")
    return status


def _system_error(failure: OSError) -> str:
    """Return what the operating system refused and for which file, such as a full disk."""
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
    if failure.filename is not None:
        return f"{failure.filename}: {reason}"
    if failure.strerror is None:
        return reason
    # Such as a semaphore, for which there is no file of a name: who asked says what it was.
    asked = traceback.extract_tb(failure.__traceback__)[-1]
    place = f"{Path(asked.filename).name}, {asked.name}"
    return f"{reason} ({place}; --debug shows where)"


def _drop_stdout() -> None:
    """Discard the output where its reader went away (``| head``)."""
    # Python flushes stdout once more at exit, which would complain of the same.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
