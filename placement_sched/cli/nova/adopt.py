# SPDX-License-Identifier: Apache-2.0
"""``nova adopt``: records the cloud of an existing nova, and reports mismatches."""

import argparse
from collections.abc import Iterator, Sequence
from enum import IntEnum

from placement_sched.cli.arguments import Commands, add_command, add_format
from placement_sched.cli.database import url_without_password
from placement_sched.cli.nova.following import counts_of, document_of, faults_of, follow_nova
from placement_sched.cli.terminal import print_result, show_progress, show_waiting
from placement_sched.model.clock import utcnow
from placement_sched.nova.sync.findings import SyncReport
from placement_sched.operations.cloud_check import Mismatch, check_cloud

#: Maximum number of printed names of a kind; --format json has all names.
_MAX_NAMES = 10


class AdoptExit(IntEnum):
    """Exit status of ``nova adopt``."""

    RECORDED = 0
    FAILED = 1
    CELL_AWAY = 3


def register(group: Commands) -> None:
    """Add the command."""
    parser = add_command(
        group,
        "adopt",
        "record the cloud of an existing nova, and report mismatches with placement",
        run,
        of_nova=True,
        epilog=(
            "It reads the databases of nova.conf ([api_database] connection and the databases of "
            "the cells),\nand does not write to them. Run db adopt first, which takes over "
            "placement's database.\n\n"
            "exit status:\n"
            "  0  everything was read, with or without mismatches\n"
            "  1  the databases could not be read\n"
            "  3  the database of a cell did not answer"
        ),
        failure=AdoptExit.FAILED,
    )
    parser.add_examples("--config-file /etc/nova/nova.conf --config-file placement_sched.conf")
    add_format(parser)


def run(arguments: argparse.Namespace) -> int:
    """Read nova's databases and print the counts and mismatches."""
    with follow_nova(arguments) as (settings, database, follower):
        place = url_without_password(database)
        with show_progress("reading nova's databases") as progress:
            findings = follower.full(progress)
        with show_waiting("comparing with placement"), database.read() as connection:
            unread = None if findings.away else findings.unread
            mismatches = check_cloud(connection, settings, utcnow, unread=unread)
    code = AdoptExit.CELL_AWAY if findings.away else AdoptExit.RECORDED
    document = {
        "database": place,
        "code": int(code),
        **document_of(findings),
        "unfit": [
            {
                "kind": mismatch.kind.key,
                "number": mismatch.number,
                "names": list(mismatch.names),
                "what": mismatch.kind.what,
                "remedy": mismatch.kind.fix,
            }
            for mismatch in mismatches
        ],
    }
    print_result(arguments, document, _lines(findings, mismatches, place))
    return code


def _lines(findings: SyncReport, mismatches: Sequence[Mismatch], place: str) -> Iterator[str]:
    yield from counts_of(findings)
    yield f"{place}: recorded in {findings.seconds:.1f} s"
    yield from faults_of(findings)
    for mismatch in mismatches:
        yield f"{mismatch.kind.what}: {mismatch.number} ({_names(mismatch)})"
        yield f"    {mismatch.kind.fix}"
    if not mismatches and not findings.issues and not findings.away:
        yield "everything fits"
    yield "placement-sched nova sync --check lists later changes"


def _names(mismatch: Mismatch) -> str:
    first = mismatch.names[:_MAX_NAMES]
    more = f" and {mismatch.number - len(first)} more" if mismatch.number > len(first) else ""
    return ", ".join(first) + more
