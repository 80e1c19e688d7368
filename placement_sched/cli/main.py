"""``placement-sched``: reads the command, runs it, and tells failure in one line."""

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from importlib.metadata import version

from placement_sched.cli import config, db, demo, select, serve, status
from placement_sched.cli.arguments import Parser
from placement_sched.cli.terminal import one_line, sentence
from placement_sched.errors import Error

PROGRAM = "placement-sched"

#: The command groups, in the order of ``--help``.
GROUPS = (demo, serve, db, select, status, config)

INTERRUPTED = 130  # 128 + SIGINT, as shells have it
BROKEN_PIPE = 141  # 128 + SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that ``argv`` names and return its exit status."""
    arguments = make_parser().parse_args(argv)
    try:
        done: int = arguments.run(arguments)
        sys.stdout.flush()
    except Error as error:
        return _fail(sentence(error), arguments.failure)
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        return _stdout_gone()
    except Exception as failure:  # noqa: BLE001 - the last door: nobody is shown a traceback unasked
        if arguments.debug:
            traceback.print_exc()
        return _fail(
            f"unexpected {type(failure).__name__}: {one_line(failure)} "
            "(a defect; --debug shows where)",
            arguments.failure,
        )
    return done


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = Parser(prog=PROGRAM, description="Decides where a virtual machine goes, and says why.")
    parser.add_argument(
        "--version", action="version", version=f"{PROGRAM} {version('placement_sched')}"
    )
    parser.add_argument("--debug", action="store_true", help=argparse.SUPPRESS)
    # A command whose status 1 means something else of its own sets another one.
    parser.set_defaults(failure=1)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for group in GROUPS:
        group.register(commands)
    return parser


def _fail(sentence: str, status: int) -> int:
    sys.stderr.write(f"{PROGRAM}: {sentence}\n")
    return status


def _stdout_gone() -> int:
    """Leave quietly when whoever read our output went away (``| head``)."""
    # Python flushes stdout once more at exit, which would complain of the same pipe.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BROKEN_PIPE
