# SPDX-License-Identifier: Apache-2.0
"""``nova``: use of nova's databases.

``nova adopt`` records the cloud of an existing nova, and reports mismatches. ``nova sync`` updates
these records from nova's databases, or compares them.
"""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict

from placement_sched.cli.arguments import Commands, add_command, add_format, add_group
from placement_sched.cli.database import check_file_exists, hide_password, read_command_settings
from placement_sched.cli.output import print_result, show_progress, show_waiting
from placement_sched.clients.session import silence_library_logs
from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Database
from placement_sched.errors import Unavailable
from placement_sched.model.clock import utcnow
from placement_sched.model.document import Json
from placement_sched.model.names import format_count
from placement_sched.nova.databases import (
    NovaDatabaseUnavailable,
    WrongNovaDatabase,
    check_databases_set,
)
from placement_sched.nova.sync import SyncReport
from placement_sched.nova.sync.follower import Follower
from placement_sched.operations.checks import Mismatch, check_cloud
from placement_sched.operations.prepare import Preparation, check_schema_revision

_HEADINGS = ("", "read", "new", "changed", "gone")
_SIGNS = {"new": "+", "changed": "~", "gone": "-"}
#: Exit status if the database of a cell did not answer.
_CELL_AWAY = 3
#: Maximum number of printed names of a kind. --format json has all names.
_MAX_NAMES = 10


def register(commands: Commands) -> None:
    """Add the commands."""
    group = add_group(commands, "nova", "read nova's databases, and take over its cloud")
    _add_adopt(group)
    _add_sync(group)


@contextmanager
def _follow_nova(
    arguments: argparse.Namespace, *, must_exist: bool = False
) -> Iterator[tuple[Settings, Database, Follower]]:
    """Yield settings, database and follower.

    The database is prepared, unless it ``must_exist``: then it is not written.
    """
    settings = read_command_settings(arguments)
    check_databases_set(settings)
    with Database(settings) as database:
        if must_exist:
            check_file_exists(database)
            check_schema_revision(database)
        else:
            Preparation(database, settings, utcnow)()
        # The command reports the events that the follower would log.
        with (
            closing(Follower(database, settings, utcnow)) as follower,
            silence_library_logs(["placement_sched.nova"]),
        ):
            try:
                yield settings, database, follower
            except WrongNovaDatabase as failure:
                raise Unavailable(f"[api_database] connection: {failure.detail}") from None
            except NovaDatabaseUnavailable as failure:
                detail = f"nova's API database does not answer: {failure.detail}"
                raise Unavailable(detail) from None


def _build_document(findings: SyncReport) -> Json:
    return {
        "read": {noun: asdict(count) for noun, count in findings.counts.items()},
        "differing": findings.differing,
        "away": list(findings.away),
        "misfits": [{"place": row.place, "reason": row.reason} for row in findings.issues],
        "differences": [
            {"noun": row.noun, "change": row.kind, "name": row.name, "fields": list(row.fields)}
            for row in findings.differences
        ],
        "seconds": round(findings.seconds, 3),
    }


def _format_counts(findings: SyncReport) -> Iterator[str]:
    rows = [
        (noun, *map(str, (count.read, count.new, count.changed, count.gone)))
        for noun, count in findings.counts.items()
    ]
    widths = [max(map(len, column)) for column in zip(_HEADINGS, *rows, strict=True)]
    for first, *numbers in (_HEADINGS, *rows):
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True)]
        yield "  ".join(cells)


def _format_faults(findings: SyncReport) -> Iterator[str]:
    for cell in findings.away:
        yield f"{cell}: its database does not answer, so its records were not changed"
    yield from map(str, findings.issues)


def _add_adopt(group: Commands) -> None:
    parser = add_command(
        group,
        "adopt",
        "record the cloud of an existing nova, and report mismatches with placement",
        _run_adopt,
        with_nova_conf=True,
        epilog=(
            "It reads the databases of nova.conf ([api_database] connection and the databases of "
            "the cells),\nand does not write to them. Run db adopt first, which takes over "
            "placement's database.\n\n"
            "exit status:\n"
            "  0  everything was read, with or without mismatches\n"
            "  1  the databases could not be read\n"
            "  3  the database of a cell did not answer"
        ),
    )
    parser.add_examples("--config-file /etc/nova/nova.conf --config-file placement_sched.conf")
    add_format(parser)


def _run_adopt(arguments: argparse.Namespace) -> int:
    with _follow_nova(arguments) as (settings, database, follower):
        place = hide_password(database)
        with show_progress("reading nova's databases") as progress:
            findings = follower.sync_all(progress)
        with show_waiting("comparing with placement"), database.read() as connection:
            unread = None if findings.away else findings.unread
            mismatches = check_cloud(connection, settings, utcnow, unread=unread)
    code = _CELL_AWAY if findings.away else 0
    document = {
        "database": place,
        "code": code,
        **_build_document(findings),
        "unfit": [
            {
                "kind": mismatch.kind.key,
                "number": mismatch.number,
                "names": list(mismatch.names),
                "what": mismatch.kind.subject,
                "remedy": mismatch.kind.fix,
            }
            for mismatch in mismatches
        ],
    }
    print_result(arguments, document, _adopt_lines(findings, mismatches, place))
    return code


def _adopt_lines(findings: SyncReport, mismatches: Sequence[Mismatch], place: str) -> Iterator[str]:
    yield from _format_counts(findings)
    yield f"{place}: recorded in {findings.seconds:.1f} s"
    yield from _format_faults(findings)
    for mismatch in mismatches:
        names = mismatch.names[:_MAX_NAMES]
        more = f" and {mismatch.number - len(names)} more" if mismatch.number > len(names) else ""
        yield f"{mismatch.kind.subject}: {mismatch.number} ({', '.join(names)}{more})"
        yield f"    {mismatch.kind.fix}"
    if not mismatches and not findings.issues and not findings.away:
        yield "everything fits"
    yield "placement-sched nova sync --check lists later changes"


def _add_sync(group: Commands) -> None:
    parser = add_command(
        group,
        "sync",
        "read nova's databases once, and record its hosts and instances",
        _run_sync,
        with_nova_conf=True,
        epilog=(
            "exit status:\n"
            "  0  the records match nova\n"
            "  1  --check found differences\n"
            "  2  the databases could not be read\n"
            "  3  the database of a cell did not answer, all other records match nova"
        ),
        failure=2,
    )
    parser.add_examples(
        "--check --config-file /etc/nova/nova.conf --config-file placement_sched.conf"
    )
    parser.add_argument(
        "--check", action="store_true", help="list differences from nova without writing"
    )
    add_format(parser)


def _run_sync(arguments: argparse.Namespace) -> int:
    check: bool = arguments.check
    label = "comparing with nova's databases" if check else "reading nova's databases"
    with (
        _follow_nova(arguments, must_exist=check) as (_, database, follower),
        show_progress(label) as progress,
    ):
        place = hide_password(database)
        findings = follower.compare(progress) if check else follower.sync_all(progress)
    code = 1 if check and findings.differing else _CELL_AWAY if findings.away else 0
    document = {"database": place, "check": check, "code": code, **_build_document(findings)}
    print_result(arguments, document, _sync_lines(findings, place, check=check))
    return code


def _sync_lines(findings: SyncReport, place: str, *, check: bool) -> Iterator[str]:
    yield from _format_counts(findings)
    for difference in findings.differences:
        fields = f": {', '.join(difference.fields)}" if difference.fields else ""
        noun = difference.noun.removesuffix("s")
        yield f"{_SIGNS[difference.kind]} {noun} {difference.name}{fields}"
    yield from _format_faults(findings)
    number = findings.differing
    if check:
        differ = format_count(number, "difference") if number else "no differences"
        yield f"{place}: {differ}, nothing was written"
    else:
        result = f"{number} brought up to date" if number else "was up to date"
        yield f"{place}: {result} in {findings.seconds:.1f} s"
