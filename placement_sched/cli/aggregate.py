# SPDX-License-Identifier: Apache-2.0
"""``aggregate check``: problems of aggregates that are reserved by traits."""

import argparse
from collections.abc import Iterator, Sequence

from placement_sched.cli.arguments import Commands, add_command, add_format, add_group
from placement_sched.cli.database import read_configuration
from placement_sched.cli.output import print_result, show_waiting
from placement_sched.model.names import format_count, shorten_names
from placement_sched.operations.aggregate_check import AggregateCheck, check_aggregates

_FOUND = 1
#: Exit status if the check could not be run.
_COULD_NOT_CHECK = 255


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        add_group(commands, "aggregate", "check host aggregates"),
        "check",
        "show which flavors and images may use aggregates reserved by traits",
        run,
        epilog=(
            "exit status:\n"
            "  0    no problem was found\n"
            "  1    problems were found\n"
            "  255  the check could not be run"
        ),
        failure=_COULD_NOT_CHECK,
    )
    add_format(parser.add_examples(""))


def run(arguments: argparse.Namespace) -> int:
    """Print the users and problems of each aggregate, and return the status."""
    with (
        read_configuration(arguments, must_exist=True) as (settings, database),
        show_waiting("checking aggregates"),
        database.read() as connection,
    ):
        check = check_aggregates(connection, settings)
    status = _FOUND if check.findings else 0
    print_result(arguments, {"code": status, **check.as_json()}, _format_check(check))
    return status


def _format_check(check: AggregateCheck) -> Iterator[str]:
    is_, would = ("is", "") if check.filtering else ("would be, with the filter on,", "would be ")
    for aggregate in check.reserved:
        yield f"{aggregate.aggregate.name} {is_} reserved by {', '.join(aggregate.traits)}"
        for noun, open_to, forbidden in (
            ("flavors", aggregate.open_flavors, aggregate.forbidden_flavors),
            ("images", aggregate.open_images, aggregate.forbidden_images),
        ):
            names = f"open to {_format_names(open_to)}; forbidden to {_format_names(forbidden)}"
            yield f"    {noun}: {would}{names}"
    if not check.reserved:
        yield "no host aggregate is reserved by traits"
    for finding in check.findings:
        about = f"{finding.aggregate}: " if finding.aggregate else ""
        names = f"{shorten_names(finding.names)} " if finding.names else ""
        yield f"{finding.kind}: {about}{names}{finding.detail}"
    yield format_count(len(check.findings), "finding") if check.findings else "no findings"


def _format_names(names: Sequence[str]) -> str:
    return f"{len(names)} ({shorten_names(names)})" if names else "none"
