"""``aggregate check``: what is wrong with aggregates that are reserved by traits."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from placement_sched.cli.arguments import Commands, add_command, add_format, add_group
from placement_sched.cli.database import open_database, refuse_absent_file
from placement_sched.cli.terminal import print_json, waiting
from placement_sched.model.aggregate_check import AggregateCheck, Finding, Reserved
from placement_sched.operations.aggregate_check import check_aggregates
from placement_sched.scheduler.loading import read_settings

Json = dict[str, Any]

FOUND = 1
#: The exit status where the check could not be made.
COULD_NOT_CHECK = 255

#: Of many names, how many are shown to people.
_SHOWN = 5


def register(commands: Commands) -> None:
    """Add the command."""
    group = add_group(commands, "aggregate", summary="look at host aggregates")
    parser = add_command(
        group,
        "check",
        summary="tell who may use aggregates that are reserved by traits, and what is wrong there",
        epilog=(
            "exit status:\n"
            "  0    nothing is wrong\n"
            "  1    something is wrong\n"
            "  255  the check could not be made"
        ),
    )
    add_format(parser)
    parser.set_defaults(run=run, failure=COULD_NOT_CHECK)


def run(arguments: argparse.Namespace) -> int:
    """Print who may use what and what is wrong; return whether anything is."""
    settings = read_settings(arguments.config_file)
    with open_database(settings) as database:
        refuse_absent_file(database)
        with waiting("checking aggregates"), database.read() as connection:
            check = check_aggregates(connection, settings)
    if arguments.format == "json":
        print_json(_document(check))
    else:
        sys.stdout.write("".join(f"{line}\n" for line in _lines(check)))
    return FOUND if check.findings else 0


def _lines(check: AggregateCheck) -> Iterator[str]:
    for one in check.reserved:
        is_ = "is" if check.filtering else "would be, with the filter on,"
        yield f"{one.aggregate.name} {is_} reserved by {', '.join(one.traits)}"
        yield from _who(one, "" if check.filtering else "would be ")
    if not check.reserved:
        yield "no host aggregate is reserved by traits"
    for finding in check.findings:
        about = f"{finding.aggregate}: " if finding.aggregate else ""
        yield f"{finding.kind}: {about}{_who_first(finding)}{finding.detail}"
    number = len(check.findings)
    yield "nothing is wrong" if not number else f"{number} finding{'s'[: number > 1]}"


def _who(one: Reserved, would_be: str) -> Iterator[str]:
    for noun, open_to, forbidden in (
        ("flavors", one.open_flavors, one.forbidden_flavors),
        ("images", one.open_images, one.forbidden_images),
    ):
        who = f"open to {_counted(open_to)}; forbidden to {_counted(forbidden)}"
        yield f"    {noun}: {would_be}{who}"


def _who_first(finding: Finding) -> str:
    if not finding.names:
        return ""
    return f"{_shown(finding.names)} {'is' if len(finding.names) == 1 else 'are'} "


def _counted(names: Sequence[str]) -> str:
    return f"{len(names)} ({_shown(names)})" if names else "none"


def _shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _document(check: AggregateCheck) -> Json:
    return {
        "code": FOUND if check.findings else 0,
        "filtering": check.filtering,
        "aggregates": [
            {
                "uuid": one.aggregate.uuid,
                "name": one.aggregate.name,
                "traits": list(one.traits),
                "flavors": {
                    "open": list(one.open_flavors),
                    "forbidden": list(one.forbidden_flavors),
                },
                "images": {"open": list(one.open_images), "forbidden": list(one.forbidden_images)},
            }
            for one in check.reserved
        ],
        "findings": [
            {
                "kind": str(finding.kind),
                "detail": finding.detail,
                "aggregate": finding.aggregate,
                "trait": finding.trait,
                "names": list(finding.names),
            }
            for finding in check.findings
        ],
    }
