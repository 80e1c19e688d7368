# SPDX-License-Identifier: Apache-2.0
"""``status upgrade check``: readiness of database and configuration for this release."""

import argparse
from collections.abc import Iterator, Sequence
from textwrap import wrap

from placement_sched.cli.arguments import Commands, add_command, add_format, add_group
from placement_sched.cli.database import read_configuration
from placement_sched.cli.terminal import print_result
from placement_sched.operations.prepare import Result, check_upgrade, highest_code

#: Exit status of placement-status if the checks could not be run.
_COULD_NOT_CHECK = 255
_TITLE = "Upgrade Check Results"
_WIDTH = 68


def register(commands: Commands) -> None:
    """Add the command."""
    group = add_group(commands, "status", "check upgrade readiness")
    parser = add_command(
        add_group(group, "upgrade", "check upgrade readiness"),
        "check",
        "check whether database and configuration are ready for this release",
        run,
        epilog=(
            "exit status, as of placement-status:\n"
            "  0    ready\n"
            "  1    warnings: the upgrade is possible\n"
            "  2    errors: fix them before the upgrade\n"
            "  255  the checks could not be run"
        ),
        failure=_COULD_NOT_CHECK,
    )
    add_format(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the result of each check, and return the worst code."""
    with read_configuration(arguments, there=True) as (settings, database):
        results = check_upgrade(database, settings)
    code = int(highest_code(results))
    checks = [
        {"check": result.check, "result": result.code.name.capitalize(), "details": result.details}
        for result in results
    ]
    print_result(arguments, {"code": code, "checks": checks}, _table(results))
    return code


def _table(results: Sequence[Result]) -> Iterator[str]:
    """Yield the results in the layout of placement-status, for scripts that parse it."""
    cells = [[_TITLE]]
    for result in results:
        details = wrap(
            f"Details: {result.details or 'None'}",
            _WIDTH,
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        cells.append(
            [f"Check: {result.check}", f"Result: {result.code.name.capitalize()}", *details]
        )
    width = max(len(line) for cell in cells for line in cell)
    yield (rule := f"+{'-' * (width + 2)}+")
    for cell in cells:
        yield from (f"| {line.ljust(width)} |" for line in cell)
        yield rule
