"""``aggregate check``: what is wrong with aggregates that are reserved by traits."""

import argparse
from collections.abc import Iterator, Sequence

from placement_sched.cli.arguments import Commands, add_command, add_format, add_group
from placement_sched.cli.database import configured
from placement_sched.cli.terminal import print_result, waiting
from placement_sched.model.names import in_short
from placement_sched.operations.aggregate_check import AggregateCheck, check_aggregates

_FOUND = 1
#: The exit status where the check could not be run.
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
    add_format(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print which requests may use which aggregates and what is wrong; return the exit status."""
    with (
        configured(arguments, there=True) as (settings, database),
        waiting("checking aggregates"),
        database.read() as connection,
    ):
        check = check_aggregates(connection, settings)
    status = _FOUND if check.findings else 0
    print_result(arguments, {"code": status, **check.as_json()}, _lines(check))
    return status


def _lines(check: AggregateCheck) -> Iterator[str]:
    is_, would = ("is", "") if check.filtering else ("would be, with the filter on,", "would be ")
    for one in check.reserved:
        yield f"{one.aggregate.name} {is_} reserved by {', '.join(one.traits)}"
        for noun, open_to, forbidden in (
            ("flavors", one.open_flavors, one.forbidden_flavors),
            ("images", one.open_images, one.forbidden_images),
        ):
            who = f"open to {_counted(open_to)}; forbidden to {_counted(forbidden)}"
            yield f"    {noun}: {would}{who}"
    if not check.reserved:
        yield "no host aggregate is reserved by traits"
    for finding in check.findings:
        about = f"{finding.aggregate}: " if finding.aggregate else ""
        who = f"{in_short(finding.names)} " if finding.names else ""
        yield f"{finding.kind}: {about}{who}{finding.detail}"
    number = len(check.findings)
    yield "no findings" if not number else f"{number} finding{'s'[: number > 1]}"


def _counted(names: Sequence[str]) -> str:
    return f"{len(names)} ({in_short(names)})" if names else "none"
