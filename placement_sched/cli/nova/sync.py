# SPDX-License-Identifier: Apache-2.0
"""``nova sync``: syncs this service with nova's databases, or compares them."""

import argparse
from collections.abc import Iterator
from enum import IntEnum

from placement_sched.cli.arguments import Commands, add_command, add_format
from placement_sched.cli.database import url_without_password
from placement_sched.cli.nova.following import (
    counts_of,
    differences_of,
    document_of,
    faults_of,
    follow_nova,
)
from placement_sched.cli.terminal import count_noun, print_result, show_progress
from placement_sched.nova.sync.findings import SyncReport


class SyncExit(IntEnum):
    """Exit status of ``nova sync``."""

    IN_STEP = 0
    DIFFERENT = 1
    FAILED = 2
    CELL_AWAY = 3


def register(group: Commands) -> None:
    """Add the command."""
    parser = add_command(
        group,
        "sync",
        "read nova's databases once, and record its hosts and instances",
        run,
        of_nova=True,
        epilog=(
            "exit status:\n"
            "  0  the records match nova\n"
            "  1  --check found differences\n"
            "  2  the databases could not be read\n"
            "  3  the database of a cell did not answer; all other records match nova"
        ),
        failure=SyncExit.FAILED,
    )
    parser.add_examples(
        "--check --config-file /etc/nova/nova.conf --config-file placement_sched.conf"
    )
    parser.add_argument(
        "--check", action="store_true", help="list differences from nova without writing"
    )
    add_format(parser)


def run(arguments: argparse.Namespace) -> int:
    """Sync or compare, print the result, and return the exit status."""
    check: bool = arguments.check
    label = "comparing with nova's databases" if check else "reading nova's databases"
    with (
        follow_nova(arguments, there=check) as (_, database, follower),
        show_progress(label) as progress,
    ):
        place = url_without_password(database)
        findings = follower.compare(progress) if check else follower.full(progress)
    code = _code(findings, check=check)
    document = {"database": place, "check": check, "code": int(code), **document_of(findings)}
    print_result(arguments, document, _lines(findings, place, check=check))
    return code


def _code(findings: SyncReport, *, check: bool) -> SyncExit:
    if check and findings.differing:
        return SyncExit.DIFFERENT
    return SyncExit.CELL_AWAY if findings.away else SyncExit.IN_STEP


def _lines(findings: SyncReport, place: str, *, check: bool) -> Iterator[str]:
    yield from counts_of(findings)
    yield from differences_of(findings)
    yield from faults_of(findings)
    number = findings.differing
    if check:
        differ = count_noun(number, "difference") if number else "no differences"
        yield f"{place}: {differ}; nothing was written"
    else:
        result = f"{number} brought up to date" if number else "was up to date"
        yield f"{place}: {result} in {findings.seconds:.1f} s"
