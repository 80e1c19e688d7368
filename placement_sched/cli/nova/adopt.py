"""``adopt nova``: records the cloud of an existing nova, and reports what does not fit."""

import argparse
from collections.abc import Iterator, Sequence
from enum import IntEnum

from placement_sched.cli.arguments import Commands, add_command, add_format
from placement_sched.cli.database import shown
from placement_sched.cli.nova.following import counts_of, document_of, faults_of, following
from placement_sched.cli.terminal import print_result, progressing, waiting
from placement_sched.model.clock import utcnow
from placement_sched.nova.sync.findings import Findings
from placement_sched.operations.cloud_check import Unfit, check_cloud

#: So many names of one kind are printed; --format json has more.
_NAMED = 10


class AdoptExit(IntEnum):
    """The exit status."""

    RECORDED = 0
    FAILED = 1
    CELL_AWAY = 3


def register(group: Commands) -> None:
    """Add the command."""
    parser = add_command(
        group,
        "nova",
        "record the cloud of an existing nova, and report what does not fit placement",
        run,
        epilog=(
            "It reads the databases that nova.conf names ([api_database] connection, and those of "
            "the cells),\nand writes to none of them. db adopt takes over placement's database, "
            "and comes first.\n\n"
            "exit status:\n"
            "  0  everything was read, whatever the report says\n"
            "  1  the databases could not be read\n"
            "  3  the database of a cell did not answer"
        ),
        failure=AdoptExit.FAILED,
    )
    add_format(parser)


def run(arguments: argparse.Namespace) -> int:
    """Read all there is, and print what was found and what does not fit."""
    with following(arguments) as (settings, database, follower):
        place = shown(database)
        with progressing("reading nova's databases") as progress:
            findings = follower.full(progress)
        with waiting("comparing with placement"), database.read() as connection:
            unread = None if findings.away else findings.unread
            unfit = check_cloud(connection, settings, utcnow, unread=unread)
    code = AdoptExit.CELL_AWAY if findings.away else AdoptExit.RECORDED
    document = {
        "database": place,
        "code": int(code),
        **document_of(findings),
        "unfit": [
            {
                "kind": one.kind.value,
                "number": one.number,
                "names": list(one.names),
                "what": one.kind.what,
                "remedy": one.kind.remedy,
            }
            for one in unfit
        ],
    }
    print_result(arguments, document, _lines(findings, unfit, place))
    return code


def _lines(findings: Findings, unfit: Sequence[Unfit], place: str) -> Iterator[str]:
    yield from counts_of(findings)
    yield f"{place}: recorded in {findings.seconds:.1f} s"
    yield from faults_of(findings)
    for one in unfit:
        yield f"{one.kind.what}: {one.number} ({_names(one)})"
        yield f"    {one.kind.remedy}"
    if not unfit and not findings.misfits and not findings.away:
        yield "everything fits"
    yield "placement-sched nova sync --check lists what changes from now on"


def _names(one: Unfit) -> str:
    first = one.names[:_NAMED]
    more = f" and {one.number - len(first)} more" if one.number > len(first) else ""
    return ", ".join(first) + more
