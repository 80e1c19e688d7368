"""``status upgrade check``: whether database and configuration are ready for this release."""

import argparse
import sys
from collections.abc import Sequence
from textwrap import wrap

from placement_sched.cli.arguments import Commands, add_command, add_format, add_group
from placement_sched.cli.database import open_database
from placement_sched.cli.terminal import print_json
from placement_sched.operations.upgrade_check import Result, check_upgrade, worst
from placement_sched.scheduler.loading import read_settings

#: placement-status's exit status where the checks could not be made.
COULD_NOT_CHECK = 255

_TITLE = "Upgrade Check Results"
_WIDTH = 68


def register(commands: Commands) -> None:
    """Add the command."""
    group = add_group(commands, "status", summary="tell whether this release can be run")
    group = add_group(group, "upgrade", summary="tell whether this release can be upgraded to")
    parser = add_command(
        group,
        "check",
        summary="check whether database and configuration are ready for this release",
        epilog=(
            "exit status, as placement-status's:\n"
            "  0    all is ready\n"
            "  1    something should be looked at, but is no hindrance\n"
            "  2    something must be done first\n"
            "  255  the checks could not be made"
        ),
    )
    add_format(parser)
    parser.set_defaults(run=run, failure=COULD_NOT_CHECK)


def run(arguments: argparse.Namespace) -> int:
    """Print what each check says; return the gravest code."""
    settings = read_settings(arguments.config_file)
    with open_database(settings) as database:
        results = check_upgrade(database, settings)
    code = worst(results)
    if arguments.format == "json":
        print_json({"code": int(code), "checks": [_document(result) for result in results]})
    else:
        sys.stdout.write(_table(results))
    return int(code)


def _document(result: Result) -> dict[str, object]:
    return {
        "check": result.check,
        "result": result.code.name.capitalize(),
        "details": result.details,
    }


def _table(results: Sequence[Result]) -> str:
    """Return the results drawn as placement-status draws its own, for scripts that read those."""
    cells = [[_TITLE], *(_cell(result) for result in results)]
    width = max(len(line) for cell in cells for line in cell)
    rule = f"+{'-' * (width + 2)}+\n"
    drawn = ("".join(f"| {line.ljust(width)} |\n" for line in cell) for cell in cells)
    return rule + rule.join(drawn) + rule


def _cell(result: Result) -> list[str]:
    details = f"Details: {result.details or 'None'}"
    return [
        f"Check: {result.check}",
        f"Result: {result.code.name.capitalize()}",
        *wrap(
            details,
            _WIDTH,
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        ),
    ]
