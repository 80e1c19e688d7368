# SPDX-License-Identifier: Apache-2.0
"""``nova`` and ``nova-shadow``: use of nova's databases and requests.

``nova adopt`` records the cloud of an existing nova, and reports mismatches. ``nova sync`` updates
these records from nova's databases, or compares them. ``nova-shadow`` evaluates nova's requests
alongside nova-scheduler, without claims. ``nova-shadow report`` shows how often nova and this
service choose the same host, and the reasons for other choices.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from datetime import datetime
from enum import IntEnum
from functools import partial

from placement_sched.app import provide_placement
from placement_sched.cli.arguments import Commands, add_command, add_files, add_format, add_group
from placement_sched.cli.database import (
    check_database_adopted,
    check_file_exists,
    describe_database,
    hide_password,
    read_command_settings,
    read_configuration,
)
from placement_sched.cli.output import format_count, print_result, show_progress, show_waiting
from placement_sched.cli.service import add_log_options, read_service_settings, start_log
from placement_sched.clients.session import silence_library_logs
from placement_sched.config import CONF, logs
from placement_sched.config.settings import Settings
from placement_sched.config.sources import format_file_list
from placement_sched.db.transaction import Database
from placement_sched.errors import Unavailable
from placement_sched.extensions.shadow import service
from placement_sched.extensions.shadow.comparison import build_report, format_report
from placement_sched.extensions.shadow.tap import NovaBus
from placement_sched.model.clock import parse_time, utcnow
from placement_sched.model.document import Json
from placement_sched.nova.databases import (
    NovaDatabaseUnavailable,
    WrongNovaDatabase,
    check_databases_set,
)
from placement_sched.nova.sync import SyncReport
from placement_sched.nova.sync.follower import Follower
from placement_sched.operations.checks import Mismatch, check_cloud
from placement_sched.operations.config_check import log_warnings
from placement_sched.operations.prepare import Preparation, check_schema_revision
from placement_sched.schemas import formats
from placement_sched.store import decisions

_HEADINGS = ("", "read", "new", "changed", "gone")
_SIGNS = {"new": "+", "changed": "~", "gone": "-"}
#: Maximum number of printed names of a kind. --format json has all names.
_MAX_NAMES = 10
_SHADOW_EPILOG = """\
nova.conf is used unchanged: [DEFAULT] transport_url, [api_database] and [database] connection,
[scheduler], [filter_scheduler]. [placement_database] connection, the database of the cloud's
placement, may be in a second file. The report command shows the results."""


def register(commands: Commands) -> None:
    """Add the commands."""
    group = add_group(commands, "nova", "read nova's databases, and take over its cloud")
    _add_adopt(group)
    _add_sync(group)
    _add_shadow(commands)


@contextmanager
def follow_nova(
    arguments: argparse.Namespace, *, must_exist: bool = False
) -> Iterator[tuple[Settings, Database, Follower]]:
    """Yield settings, database and the follower that reads nova's databases.

    The database is prepared unless ``must_exist`` is true. In that case the database must exist and
    is not written.

    Raises :class:`ConfigurationError` if a database is not configured correctly,
    :class:`NotAdopted` if OpenStack placement's database is not adopted yet, and
    :class:`Unavailable` if a database does not answer, has another schema or does not exist.
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


def build_document(findings: SyncReport) -> Json:
    """Return the findings as a JSON document."""
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


def format_counts(findings: SyncReport) -> Iterator[str]:
    """Yield the lines of a table with counts of objects by kind."""
    rows = [
        (noun, *map(str, (count.read, count.new, count.changed, count.gone)))
        for noun, count in findings.counts.items()
    ]
    widths = [max(map(len, column)) for column in zip(_HEADINGS, *rows, strict=True)]
    for first, *numbers in (_HEADINGS, *rows):
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True)]
        yield "  ".join(cells)


def format_differences(findings: SyncReport) -> Iterator[str]:
    """Yield a line for each difference of a comparison."""
    for difference in findings.differences:
        fields = f": {', '.join(difference.fields)}" if difference.fields else ""
        noun = difference.noun.removesuffix("s")
        yield f"{_SIGNS[difference.kind]} {noun} {difference.name}{fields}"


def format_faults(findings: SyncReport) -> Iterator[str]:
    """Yield lines for unreachable cells and objects that cannot be recorded."""
    for cell in findings.away:
        yield f"{cell}: its database does not answer, so its records were not changed"
    yield from map(str, findings.issues)


class AdoptExit(IntEnum):
    """Exit status of ``nova adopt``."""

    RECORDED = 0
    FAILED = 1
    CELL_AWAY = 3


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
        failure=AdoptExit.FAILED,
    )
    parser.add_examples("--config-file /etc/nova/nova.conf --config-file placement_sched.conf")
    add_format(parser)


def _run_adopt(arguments: argparse.Namespace) -> int:
    """Record the cloud of nova's databases, and print counts and mismatches."""
    with follow_nova(arguments) as (settings, database, follower):
        place = hide_password(database)
        with show_progress("reading nova's databases") as progress:
            findings = follower.sync_all(progress)
        with show_waiting("comparing with placement"), database.read() as connection:
            unread = None if findings.away else findings.unread
            mismatches = check_cloud(connection, settings, utcnow, unread=unread)
    code = AdoptExit.CELL_AWAY if findings.away else AdoptExit.RECORDED
    document = {
        "database": place,
        "code": int(code),
        **build_document(findings),
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
    yield from format_counts(findings)
    yield f"{place}: recorded in {findings.seconds:.1f} s"
    yield from format_faults(findings)
    for mismatch in mismatches:
        yield f"{mismatch.kind.subject}: {mismatch.number} ({_format_mismatch_names(mismatch)})"
        yield f"    {mismatch.kind.fix}"
    if not mismatches and not findings.issues and not findings.away:
        yield "everything fits"
    yield "placement-sched nova sync --check lists later changes"


def _format_mismatch_names(mismatch: Mismatch) -> str:
    names = mismatch.names[:_MAX_NAMES]
    more = f" and {mismatch.number - len(names)} more" if mismatch.number > len(names) else ""
    return ", ".join(names) + more


class SyncExit(IntEnum):
    """Exit status of ``nova sync``."""

    IN_STEP = 0
    DIFFERENT = 1
    FAILED = 2
    CELL_AWAY = 3


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
        failure=SyncExit.FAILED,
    )
    parser.add_examples(
        "--check --config-file /etc/nova/nova.conf --config-file placement_sched.conf"
    )
    parser.add_argument(
        "--check", action="store_true", help="list differences from nova without writing"
    )
    add_format(parser)


def _run_sync(arguments: argparse.Namespace) -> int:
    """Sync or compare, print the result, and return the exit status."""
    check: bool = arguments.check
    label = "comparing with nova's databases" if check else "reading nova's databases"
    with (
        follow_nova(arguments, must_exist=check) as (_, database, follower),
        show_progress(label) as progress,
    ):
        place = hide_password(database)
        findings = follower.compare(progress) if check else follower.sync_all(progress)
    code = SyncExit.CELL_AWAY if findings.away else SyncExit.IN_STEP
    code = SyncExit.DIFFERENT if check and findings.differing else code
    document = {"database": place, "check": check, "code": int(code), **build_document(findings)}
    print_result(arguments, document, _sync_lines(findings, place, check=check))
    return code


def _sync_lines(findings: SyncReport, place: str, *, check: bool) -> Iterator[str]:
    yield from format_counts(findings)
    yield from format_differences(findings)
    yield from format_faults(findings)
    number = findings.differing
    if check:
        differ = format_count(number, "difference") if number else "no differences"
        yield f"{place}: {differ}, nothing was written"
    else:
        result = f"{number} brought up to date" if number else "was up to date"
        yield f"{place}: {result} in {findings.seconds:.1f} s"


def _add_shadow(commands: Commands) -> None:
    summary = "evaluate nova's requests alongside nova-scheduler, without claims"
    parser = add_command(
        commands, "nova-shadow", summary, _run_shadow, epilog=_SHADOW_EPILOG, with_nova_conf=True
    )
    add_log_options(parser)
    parser.add_examples("--config-file /etc/nova/nova.conf --config-file placement_sched.conf")
    _add_report(parser.add_subparsers(title="commands", metavar="COMMAND"))


def _run_shadow(arguments: argparse.Namespace) -> int:
    """Run until SIGTERM or SIGINT, and return 0 after a clean stop."""
    settings = read_service_settings(arguments)
    transport = service.check(settings)
    start_log("nova-shadow")
    check_database_adopted(settings)
    log_warnings(settings)
    print_line = partial(_print_start_line, settings, transport)
    service.serve(settings, transport, print_line, provide_placement)
    return 0


def _print_start_line(settings: Settings, transport: NovaBus, queue: str) -> None:
    brokers = ", ".join(map(str, transport.brokers))
    sys.stdout.write(
        f"placement-sched nova-shadow reads queue {queue} of {brokers}, database "
        f"{describe_database(settings)}{format_file_list(settings.conf)}"
        f"{logs.format_destination(CONF)}\n"
    )
    sys.stdout.flush()


def _add_report(group: Commands) -> None:
    summary = "show how often nova and this service agree, and explain each disagreement"
    parser = add_command(group, "report", summary, _run_report, with_nova_conf=None)
    parser.add_examples("--since 24h")
    parser.set_defaults(with_nova_conf=True)
    add_files(parser, with_nova_conf=True, of_parent=True)
    parser.add_argument(
        "--since",
        help="only requests since this time (2026-01-31T12:00:00Z), or in this period before now "
        "(30m, 24h, 7d)",
    )
    add_format(parser)


def _run_report(arguments: argparse.Namespace) -> int:
    since = None if arguments.since is None else _read_since(arguments.since)
    with (
        read_configuration(arguments, must_exist=True) as (_, database),
        database.read() as connection,
    ):
        report = build_report(decisions.list_shadow_results_since(connection, since), since)
    print_result(arguments, report, format_report(report))
    return 0


def _read_since(text: str) -> datetime:
    return formats.read(formats.parse_datetime, parse_time(text, utcnow(), "--since"), "--since")
