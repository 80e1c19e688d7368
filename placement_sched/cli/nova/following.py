# SPDX-License-Identifier: Apache-2.0
"""Follower of nova's databases, for commands."""

import argparse
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict

from placement_sched.cli.database import check_file_exists
from placement_sched.clients.session import silence_library_logs
from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Database
from placement_sched.errors import Unavailable
from placement_sched.model.clock import utcnow
from placement_sched.model.document import Json
from placement_sched.nova.databases.connections import NovaDatabaseUnavailable, check_databases_set
from placement_sched.nova.sync.findings import SyncReport
from placement_sched.nova.sync.follower import Follower
from placement_sched.operations.prepare import Preparation, check_schema_revision
from placement_sched.scheduler.plugins import read_settings


@contextmanager
def follow_nova(
    arguments: argparse.Namespace, *, there: bool = False
) -> Iterator[tuple[Settings, Database, Follower]]:
    """Yield the settings, the configured database and a follower of nova's databases.

    The database is prepared unless ``there`` is true. In that case the database must exist and is
    not written.

    Raises :class:`ConfigurationError` if a database is not configured correctly,
    :class:`NotAdopted` if OpenStack placement's database is not adopted yet, and
    :class:`Unavailable` if a database does not answer, has another schema or does not exist.
    """
    settings = read_settings(arguments.config_file)
    check_databases_set(settings)
    with Database(settings) as database:
        if there:
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
            except NovaDatabaseUnavailable as failure:
                detail = f"nova's API database does not answer: {failure.detail}"
                raise Unavailable(detail) from None


_HEADINGS = ("", "read", "new", "changed", "gone")
_SIGNS = {"new": "+", "changed": "~", "gone": "-"}


def document_of(findings: SyncReport) -> Json:
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


def counts_of(findings: SyncReport) -> Iterator[str]:
    """Yield a table with the numbers of read and differing objects of each kind."""
    rows = [
        (noun, *map(str, (count.read, count.new, count.changed, count.gone)))
        for noun, count in findings.counts.items()
    ]
    widths = [max(map(len, column)) for column in zip(_HEADINGS, *rows, strict=True)]
    for first, *numbers in (_HEADINGS, *rows):
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True)]
        yield "  ".join(cells)


def differences_of(findings: SyncReport) -> Iterator[str]:
    """Yield a line for each difference of a comparison."""
    for difference in findings.differences:
        fields = f": {', '.join(difference.fields)}" if difference.fields else ""
        noun = difference.noun.removesuffix("s")
        yield f"{_SIGNS[difference.kind]} {noun} {difference.name}{fields}"


def faults_of(findings: SyncReport) -> Iterator[str]:
    """Yield the cells that did not answer and the objects that cannot be recorded."""
    for cell in findings.away:
        yield f"{cell}: its database does not answer; its records were not changed"
    yield from map(str, findings.issues)
